#ifndef STRATA_TRAINING_TRAINER_RANK_TRAINER_H_
#define STRATA_TRAINING_TRAINER_RANK_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "training/data/dataset.h"
#include "training/nn/create_network.h"
#include "training/trainer/batch_statistics.h"
#include "training/trainer/evaluator.h"
#include "training/trainer/hash_log.h"
#include "training/trainer/snapshots.h"
#include "training/trainer/step_batches.h"
#include "training/trainer/trainer.h"
#include "training/trainer/trainer_state.h"
#include "training/trainer/view_plan.h"
#include "worker/client/client.h"
#include "worker/client/client_devices.h"
#include "worker/client/client_views.h"
#include "worker/client/straggler.h"

namespace strata::worker {

// One rank's training. Errors of the client's are returned as they are, our own by ReportFailure.
//
// Threads: the client's.
class RankTrainer {
 public:
  RankTrainer(const TrainerOptions& options, client::Client* client)
      : options_(options),
        job_(options.job),
        client_(*client),
        straggler_(options.job, options.node, client->rank()) {}

  // The client computes in a stream of ours.
  ~RankTrainer() {
    if (backend_.layers != nullptr) client_.devices().ComputeIn(nullptr).IgnoreError();
  }

  // See RunTrainer. Called once.
  absl::StatusOr<TrainingOutcome> Run();

 private:
  // Tells the client why this rank fails, unless it does not.
  absl::Status ReportFailure(absl::Status status) {
    if (!status.ok()) client_.Fail(std::string(status.message()));
    return status;
  }

  absl::Status Prepare();
  absl::Status Join();
  absl::Status LearnRanks(uint64_t step);
  absl::Status BuildNetworks();
  absl::Status PrepareToEvaluate();
  absl::Status BeginWindows(uint64_t first_step);
  absl::Status MakeSteps(StepBatches* batches);
  absl::Status PrefetchImages(uint64_t step, StepBatches* batches);
  absl::Status Step(uint64_t step, StepBatches* batches);
  absl::Status AtStepsStart(uint64_t step);
  absl::Status MeasureWeights(uint64_t step);
  absl::Status SendHeld();
  absl::Status CheckLoss(double loss, uint64_t step);
  absl::Status Delay(uint64_t step);
  absl::Status CloseWindow(uint64_t step);
  absl::Status EvaluateInto(client::Report* report);
  absl::Status MeasureSnapshots();
  // See RankReport in proto/control.proto.
  double TrainedSeconds() const {
    return absl::ToDoubleSeconds(absl::Now() - began_ - evaluating_ - evaluating_before_);
  }
  absl::Status Send(client::Report report);
  absl::Status End();
  absl::Status Leave();
  absl::Status SaveTo(const std::string& path);

  // Whether this rank does what one of them does for all, in the step in hand.
  bool leads() const { return by_.makes_it && by_.rank == 0; }
  bool measures() const { return leads() && data_.test.size() > 0; }

  std::vector<absl::Span<float>> WeightSpans() {
    std::vector<absl::Span<float>> spans;
    for (int tensor : tensors_) spans.push_back(client_.Weights(tensor));
    return spans;
  }

  const TrainerOptions& options_;
  const proto::Job& job_;
  client::Client& client_;
  const Straggler straggler_;
  absl::Duration computed_before_;  // of the thread, up to the last delay, and in evaluations

  TrainAndTest data_;
  Normalisation normalisation_;
  ModelSpec model_;
  ViewPlan plan_;
  client::StepRanks by_;      // who makes the step in hand
  std::vector<int> tensors_;  // the client's index by ListWeights's
  Backend backend_;
  std::unique_ptr<BatchStatistics> statistics_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Evaluator> evaluator_;  // of a rank that measures
  std::optional<HashLog> hashes_;

  client::Report window_;  // the steps since the last report
  // A window that waits for the evaluation of the weights after it.
  std::optional<client::Report> held_;
  bool measurement_due_ = false;  // of the weights that the next step starts from
  Snapshots snapshots_;
  std::optional<TrainerState> state_;
  absl::Time began_, window_begin_;
  absl::Duration evaluating_, evaluating_before_;  // within the window, and before it
  TrainingOutcome outcome_;
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_RANK_TRAINER_H_

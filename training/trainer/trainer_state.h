#ifndef STRATA_TRAINING_TRAINER_TRAINER_STATE_H_
#define STRATA_TRAINING_TRAINER_TRAINER_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "training/data/dataset.h"
#include "training/nn/create_network.h"
#include "training/nn/network/model.h"
#include "training/trainer/batch_statistics.h"
#include "training/trainer/evaluator.h"
#include "worker/client/client.h"

namespace strata::training {

// Copies of a model's weights and buffers during training, to be measured after it.
class Snapshots {
 public:
  struct Snapshot {
    uint64_t step = 0;     // steps before it
    double trained_s = 0;  // see RankReport in proto/control.proto
    Tensors tensors;       // the weights, then the buffers
  };
  using OnScore = std::function<absl::Status(const Snapshot& snapshot, const Score& score)>;

  // Each call gets the same number of tensors, of the same sizes, in the backend's memory. Errors:
  // the device's.
  absl::Status Take(uint64_t step, double trained_s, const std::vector<absl::Span<float>>& weights,
                    const std::vector<absl::Span<float>>& buffers, const Backend& backend = {});
  bool empty() const { return taken_.empty(); }

  // Appends all copies, in the form of a checkpoint.
  void AppendState(std::string* state) const;
  // Restores the copies from such a state; each has as many tensors as `sizes`, with these numbers
  // of elements. Errors: InvalidArgument: they do not fit.
  absl::Status Restore(absl::Span<const std::byte> state, const std::vector<size_t>& sizes);

  // Measures the copies, oldest first, and drops them. Errors: those of `on_score`, which ends the
  // measurement, and of the model.
  absl::Status Measure(const ModelSpec& model, const Dataset* data,
                       const Normalisation& normalisation, const OnScore& on_score,
                       const Backend& backend = {});

 private:
  std::vector<Snapshot> taken_;
};

// State that a rank of a built-in model keeps in checkpoints: its buffers and, if accuracy is
// measured after training, rank 0's copies of the weights to measure.
//
// Threads: one.
class TrainerState {
 public:
  // All outlive it. `measures_later`: the job's accuracy is measured after training.
  TrainerState(const ModelSpec& model, bool measures_later, BatchStatistics* statistics,
               Snapshots* snapshots, client::Client* client)
      : model_(model),
        measures_later_(measures_later),
        statistics_(*statistics),
        snapshots_(*snapshots),
        client_(*client) {}

  // Returns true if checkpoints hold state by rank; the same on all ranks.
  bool keeps_state() const { return measures_later_ || statistics_.keeps_state(); }
  // Moves the buffers to the backend's memory and restores the state of the checkpoint from which
  // the job resumes. After the client's Start. Errors: the device's; InvalidArgument: it is of
  // another model; those of ClientCheckpoints::Read.
  absl::Status MoveTo(const Backend& backend);
  // Between steps: is_due says whether a checkpoint is due, and GiveIfDue gives it the state if so.
  // `measured_soon`: the copies are measured before anything else. Errors: the device's, which are
  // also reported to the client.
  bool is_due() const;
  absl::Status GiveIfDue(bool measured_soon);

 private:
  const ModelSpec& model_;
  const bool measures_later_;
  BatchStatistics& statistics_;
  Snapshots& snapshots_;
  client::Client& client_;
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_TRAINER_STATE_H_

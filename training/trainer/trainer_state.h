#ifndef STRATA_TRAINING_TRAINER_TRAINER_STATE_H_
#define STRATA_TRAINING_TRAINER_TRAINER_STATE_H_

#include "absl/status/status.h"
#include "training/nn/network/model.h"
#include "training/trainer/batch_statistics.h"
#include "training/trainer/snapshots.h"
#include "worker/client/client.h"

namespace strata::worker {

// What a rank of a built-in model keeps of its own in checkpoints: its buffers, and, where accuracy
// is measured after training, rank 0's copies of weights that are to be measured then.
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

  // Whether checkpoints hold something by rank: all ranks say the same.
  bool keeps_state() const { return measures_later_ || statistics_.keeps_state(); }
  // Moves the buffers to where they are from now on, and takes up what the checkpoint has that the
  // job goes on from. After the client's Start. Errors: the device's; InvalidArgument: it is of
  // another model; as of ClientCheckpoints::Read.
  absl::Status MoveTo(const Backend& backend);
  // Between steps: whether it is a checkpoint's moment, and giving it to that, if it is.
  // `measured_soon`: the
  // copies are measured before anything else. Errors: the device's, which the client is told of.
  bool is_due() const;
  absl::Status GiveIfDue(bool measured_soon);

 private:
  const ModelSpec& model_;
  const bool measures_later_;
  BatchStatistics& statistics_;
  Snapshots& snapshots_;
  client::Client& client_;
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_TRAINER_STATE_H_

#ifndef STRATA_TRAINING_TRAINER_TRAINER_H_
#define STRATA_TRAINING_TRAINER_TRAINER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "proto/job.pb.h"
#include "worker/client/client.h"

namespace strata::training {

struct TrainerOptions {
  proto::Job job;           // defaults filled in, with `model`
  std::string run_dir;      // exists; outputs go there
  uint32_t node = 0;        // logical node
  uint32_t local_rank = 0;  // on its node
  // Once notified, training ends with Cancelled at the next step. Null: it does not.
  const absl::Notification* stop = nullptr;
};

struct TrainingOutcome {
  uint64_t steps = 0;         // made here, without those before a checkpoint
  uint64_t samples = 0;       // of this rank, in these steps
  double wall_s = 0;          // of the steps, without evaluation
  double loss = 0;            // mean of the last window of steps
  double test_accuracy = -1;  // of the final model; -1: not measured (other ranks, no test data)
};

// Trains the job's model on its data as the rank that `client` is: loads the data, registers the
// model's tensors (in the order in which backward finishes them), runs all steps, reports windows
// of them. Rank 0 also evaluates and writes RUN_DIR/model.safetensors. A job that resumes from a
// checkpoint makes the remaining steps, with the same data, windows and evaluations as in any run.
//
// Blocks until the job is done. Errors of the data, the model, the run directory or the loss (NaN)
// are also handed to client.Fail, in one line; errors of the client are returned as they are.
absl::StatusOr<TrainingOutcome> RunTrainer(const TrainerOptions& options, client::Client& client);

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_TRAINER_H_

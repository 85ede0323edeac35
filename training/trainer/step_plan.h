#ifndef STRATA_TRAINING_TRAINER_STEP_PLAN_H_
#define STRATA_TRAINING_TRAINER_STEP_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace strata::worker {

// How far each rank of a job goes, and where its windows of steps end. Steps count from 0.
struct StepPlan {
  uint32_t batch = 0;  // samples of a rank per step
  uint64_t steps_per_epoch = 0, total_steps = 0;
  uint64_t report_every = 0;
  uint64_t evaluate_every = 0;  // steps

  bool EndsEpoch(uint64_t step) const { return (step + 1) % steps_per_epoch == 0; }
  // Whether the test set is evaluated after this step, apart from the end of the job.
  bool Evaluates(uint64_t step) const { return (step + 1) % evaluate_every == 0; }
  // Likewise with the weights that this step begins with.
  bool EvaluatesBefore(uint64_t step) const {
    return step > 0 && step < total_steps && Evaluates(step - 1);
  }
  bool EndsWindow(uint64_t step) const {
    return (step + 1) % report_every == 0 || EndsEpoch(step) || Evaluates(step) ||
           step + 1 == total_steps;
  }
};

// The plan of a job that trains on `samples`. Errors: InvalidArgument: they are fewer than one step
// needs.
absl::StatusOr<StepPlan> MakeStepPlan(const proto::Job& job, uint64_t samples, uint32_t ranks);

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_STEP_PLAN_H_

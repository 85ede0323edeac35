#ifndef STRATA_TRAINING_TRAINER_STEP_PLAN_H_
#define STRATA_TRAINING_TRAINER_STEP_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace strata::worker {

// How far each rank of a job goes all of whose steps have the same ranks, and what lies between.
// Steps count from 0.
struct StepPlan {
  uint32_t batch = 0;  // samples of a rank per step
  uint64_t steps_per_epoch = 0, total_steps = 0;
  uint64_t report_every = 0;
  uint64_t evaluate_every = 0;  // steps

  // Whether the test set is evaluated after this step, apart from the end of the job.
  bool Evaluates(uint64_t step) const { return (step + 1) % evaluate_every == 0; }
};

// Returns how many epochs the job has; 0: max_steps alone says how far it goes.
uint64_t EpochsOf(const proto::Job& job);

// The plan of a job that trains on `samples`. Errors: InvalidArgument: they are fewer than one step
// needs.
absl::StatusOr<StepPlan> MakeStepPlan(const proto::Job& job, uint64_t samples, uint32_t ranks);

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_STEP_PLAN_H_

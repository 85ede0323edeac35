#ifndef STRATA_TRAINING_TRAINER_STEP_PLAN_H_
#define STRATA_TRAINING_TRAINER_STEP_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/client/client_parts.h"

namespace strata::training {

// The extent of a job whose steps all have the same ranks, and its intervals. Steps count from 0.
struct StepPlan {
  uint32_t batch = 0;  // samples of a rank per step
  uint64_t steps_per_epoch = 0, total_steps = 0;
  uint64_t report_every = 0;
  uint64_t evaluate_every = 0;  // steps

  // Returns true if the test set is evaluated after this step, apart from the end of the job.
  bool Evaluates(uint64_t step) const { return (step + 1) % evaluate_every == 0; }
};

// Returns the number of epochs of the job; 0: only max_steps limits it.
uint64_t EpochsOf(const proto::Job& job);

// Returns the plan of a job that trains on `samples`. Errors: InvalidArgument: too few for one
// step.
absl::StatusOr<StepPlan> MakeStepPlan(const proto::Job& job, uint64_t samples, uint32_t ranks);

// How far a job goes, and where its epochs and windows of steps end, where each step has ranks of
// its own (client_parts.h). It counts the batches that all ranks together have used: an epoch is as
// many as in a StepPlan of the ranks that the job begins with, and ends with the step that uses the
// last one. The job ends with the step that completes its last epoch. With these ranks in every
// step all is as the StepPlan says.
class ViewPlan {
 public:
  // The plan of a job with `ranks` ranks that trains on `samples`. Errors: InvalidArgument: there
  // are fewer samples than a step needs with the most ranks that the job may have.
  static absl::StatusOr<ViewPlan> Make(const proto::Job& job, uint64_t samples, uint32_t ranks);

  ViewPlan() = default;

  uint32_t batch() const { return batch_; }
  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  uint64_t samples_per_epoch() const { return batches_per_epoch_ * batch_; }
  // 0: it depends on the ranks of the steps.
  uint64_t total_steps() const { return total_steps_; }

  // IsOver: the job has ended before this step. IsLast: it ends with this step.
  bool IsOver(uint64_t step, const client::StepRanks& by) const {
    return step >= end_step_ || by.rank_steps_before >= end_batch_;
  }
  bool IsLast(uint64_t step, const client::StepRanks& by) const {
    return step + 1 >= end_step_ || After(by) >= end_batch_;
  }
  // Returns true if the test set is evaluated after this step, apart from the end of the job.
  bool Evaluates(uint64_t step, const client::StepRanks& by) const {
    return evaluate_steps_ > 0 ? (step + 1) % evaluate_steps_ == 0 : Ends(evaluate_batches_, by);
  }
  bool EndsWindow(uint64_t step, const client::StepRanks& by) const {
    return (step + 1) % report_every_ == 0 || Ends(batches_per_epoch_, by) || Evaluates(step, by) ||
           IsLast(step, by);
  }

 private:
  static uint64_t After(const client::StepRanks& by) { return by.rank_steps_before + by.ranks; }
  // Returns true if the step uses the last batch of a group of `batches`.
  static bool Ends(uint64_t batches, const client::StepRanks& by) {
    return After(by) / batches > by.rank_steps_before / batches;
  }

  uint32_t batch_ = 0;
  uint64_t batches_per_epoch_ = 0, total_steps_ = 0;
  uint64_t end_step_ = 0, end_batch_ = 0;  // UINT64_MAX: no limit
  uint64_t report_every_ = 1;
  uint64_t evaluate_steps_ = 0, evaluate_batches_ = 0;  // one of them
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_TRAINER_STEP_PLAN_H_

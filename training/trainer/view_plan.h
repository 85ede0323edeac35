#ifndef STRATA_TRAINING_TRAINER_VIEW_PLAN_H_
#define STRATA_TRAINING_TRAINER_VIEW_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "training/trainer/step_plan.h"
#include "worker/client/client_views.h"

namespace strata::worker {

// How far a job goes, and where its epochs and windows of steps end, where each step has ranks of
// its own (client_views.h). It counts the batches that all ranks together have used: an epoch is as
// many as in a StepPlan of the ranks that the job begins with, and ends with the step that uses the
// last one. The job ends with the step that completes its last epoch. With these ranks in every
// step all is as the StepPlan says.
class ViewPlan {
 public:
  // Of a job that trains on `samples`, of which `ranks` is its number. Errors: InvalidArgument:
  // they are fewer than a step of the most ranks needs that the job may have.
  static absl::StatusOr<ViewPlan> Make(const proto::Job& job, uint64_t samples, uint32_t ranks);

  ViewPlan() = default;

  uint32_t batch() const { return batch_; }
  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  uint64_t samples_per_epoch() const { return batches_per_epoch_ * batch_; }
  // 0: it follows from who makes the steps.
  uint64_t total_steps() const { return total_steps_; }

  // Whether the job ends before this step, or with it.
  bool IsOver(uint64_t step, const client::StepRanks& by) const {
    return step >= end_step_ || by.rank_steps_before >= end_batch_;
  }
  bool IsLast(uint64_t step, const client::StepRanks& by) const {
    return step + 1 >= end_step_ || After(by) >= end_batch_;
  }
  // Whether the test set is evaluated after this step, apart from the end of the job.
  bool Evaluates(uint64_t step, const client::StepRanks& by) const {
    return evaluate_steps_ > 0 ? (step + 1) % evaluate_steps_ == 0 : Ends(evaluate_batches_, by);
  }
  bool EndsWindow(uint64_t step, const client::StepRanks& by) const {
    return (step + 1) % report_every_ == 0 || Ends(batches_per_epoch_, by) || Evaluates(step, by) ||
           IsLast(step, by);
  }

 private:
  static uint64_t After(const client::StepRanks& by) { return by.rank_steps_before + by.ranks; }
  // Whether the step uses the last batch of so many.
  static bool Ends(uint64_t batches, const client::StepRanks& by) {
    return After(by) / batches > by.rank_steps_before / batches;
  }

  uint32_t batch_ = 0;
  uint64_t batches_per_epoch_ = 0, total_steps_ = 0;
  uint64_t end_step_ = 0, end_batch_ = 0;  // UINT64_MAX: no limit
  uint64_t report_every_ = 1;
  uint64_t evaluate_steps_ = 0, evaluate_batches_ = 0;  // one of them
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_TRAINER_VIEW_PLAN_H_

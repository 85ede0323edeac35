#include "training/trainer/step_plan.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "training/data/batch_source.h"

namespace strata::training {

uint64_t EpochsOf(const proto::Job& job) {
  return job.epochs() == 0 && job.max_steps() == 0 ? 1 : job.epochs();
}

absl::StatusOr<StepPlan> MakeStepPlan(const proto::Job& job, uint64_t samples, uint32_t ranks) {
  StepPlan plan;
  plan.batch = job.data().batch_per_rank() == 0 ? 64 : job.data().batch_per_rank();
  plan.steps_per_epoch = StepsPerEpoch(samples, ranks, plan.batch);
  if (plan.steps_per_epoch == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", samples, " training samples are fewer than one step needs (", ranks,
                     " ranks x batch_per_rank ", plan.batch, ")"));
  }
  constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  const uint64_t limit = job.max_steps() == 0 ? kNoLimit : job.max_steps();
  const uint64_t epochs = EpochsOf(job);
  plan.total_steps = epochs == 0 ? limit : std::min(limit, epochs * plan.steps_per_epoch);
  plan.report_every = job.metrics().every_steps() == 0 ? 50 : job.metrics().every_steps();
  const uint64_t epochs_between = std::max(1U, job.evaluation().every_epochs());
  plan.evaluate_every = job.evaluation().every_steps() > 0 ? job.evaluation().every_steps()
                                                           : epochs_between * plan.steps_per_epoch;
  return plan;
}

absl::StatusOr<ViewPlan> ViewPlan::Make(const proto::Job& job, uint64_t samples, uint32_t ranks) {
  // There are samples for a step of the most ranks, too.
  const auto of_most = MakeStepPlan(job, samples, std::max(ranks, job.ranks_max()));
  if (!of_most.ok()) return of_most.status();
  const absl::StatusOr<StepPlan> steps = MakeStepPlan(job, samples, ranks);
  if (!steps.ok()) return steps.status();
  constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
  const uint64_t epochs = EpochsOf(job);
  ViewPlan plan;
  plan.batch_ = steps->batch;
  plan.batches_per_epoch_ = steps->steps_per_epoch * ranks;
  plan.end_step_ = job.max_steps() == 0 ? kNoLimit : job.max_steps();
  plan.end_batch_ = epochs == 0 ? kNoLimit : epochs * plan.batches_per_epoch_;
  plan.total_steps_ = IsElastic(job) && epochs > 0 ? 0 : steps->total_steps;
  plan.report_every_ = steps->report_every;
  plan.evaluate_steps_ = job.evaluation().every_steps();
  plan.evaluate_batches_ = plan.evaluate_steps_ > 0 ? 0 : steps->evaluate_every * ranks;
  return plan;
}

}  // namespace strata::training

#include "training/trainer/view_plan.h"

#include <algorithm>
#include <limits>

#include "common/job/job.h"

namespace strata::worker {

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

}  // namespace strata::worker

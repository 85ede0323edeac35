#include "numerics/update.h"

#include "common/job/consistency.h"
#include "common/job/job.h"

namespace strata::numerics {

void ApplyUpdate(const kernels::Kernels& kernels, const OptimizerParams& params,
                 const Update& update, absl::Span<const OptimizerRun> runs,
                 const float* gradient_sum, const float* w_in, float* w_out, float* state0,
                 float* state1) {
  for (const OptimizerRun& run : runs) {
    const size_t at = run.offset;
    kernels.optimize(RunParams(params, run), MakeStep(params, update, run), gradient_sum + at,
                     w_in + at, w_out + at, state0 == nullptr ? nullptr : state0 + at,
                     state1 == nullptr ? nullptr : state1 + at, run.count);
  }
}

UpdateRule MakeUpdateRule(const proto::Job& job, uint64_t samples_per_epoch, bool says_rates) {
  return {.optimizer = SharedOptimizer(job),
          .schedule = SharedSchedule(job),
          .samples_per_epoch = samples_per_epoch,
          .epochs = job.epochs(),
          .has_multipliers = !HasLocalSteps(job),
          .says_rates = says_rates && !HasLocalSteps(job)};
}

UpdateRule MakeLocalUpdateRule(const proto::Job& job, uint64_t samples_per_epoch, bool says_rates) {
  return {.optimizer = MakeOptimizerParams(job.optimizer()),
          .schedule = JobSchedule(job),
          .samples_per_epoch = samples_per_epoch,
          .epochs = job.epochs(),
          .says_rates = says_rates};
}

Update UpdateAt(const UpdateRule& rule, uint64_t samples, uint64_t number, const StepRate& step) {
  const double rate =
      rule.says_rates ? step.said
                      : LearningRateAt(rule.schedule, samples, rule.samples_per_epoch, rule.epochs);
  Update update = {.lr = rate * step.damping, .number = number, .far = rule.far};
  if (rule.optimizer.kind == OptimizerKind::kRmspropWarmup) {
    const double epoch = static_cast<double>(samples) / static_cast<double>(rule.samples_per_epoch);
    const RmspropShares shares = RmspropSharesAt(rule.optimizer, epoch, rate);
    update.sgd_share = static_cast<float>(shares.sgd);
    update.rms_share = static_cast<float>(shares.rms);
  }
  return update;
}

}  // namespace strata::numerics

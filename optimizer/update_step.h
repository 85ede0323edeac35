#ifndef STRATA_OPTIMIZER_UPDATE_STEP_H_
#define STRATA_OPTIMIZER_UPDATE_STEP_H_

#include "common/job/arena.h"
#include "common/job/optimizer.h"
#include "kernels/kernels.h"
#include "optimizer/update.h"

namespace strata::kernels {

// What one run of an update takes: its multipliers applied, and the mean in place of the optimizer
// where it is averaged.
inline OptimizerStep MakeStep(const OptimizerParams& params, const Update& update,
                              const OptimizerRun& run) {
  return {
      .lr = static_cast<float>(update.lr * run.lr_multiplier),
      .decay = params.weight_decay * run.decay_multiplier,
      .gradient_scale = update.gradient_scale,
      .update = update.number,
      .sgd_share = update.sgd_share,
      .rms_share = update.rms_share,
      .far = update.far,
  };
}
inline OptimizerParams RunParams(const OptimizerParams& params, const OptimizerRun& run) {
  OptimizerParams of_run = params;
  if (run.averaged) of_run.kind = OptimizerKind::kMean;
  return of_run;
}

}  // namespace strata::kernels

#endif  // STRATA_OPTIMIZER_UPDATE_STEP_H_

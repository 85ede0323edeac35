#include "kernels/update.h"

namespace strata::kernels {

void ApplyUpdate(const Kernels& kernels, const OptimizerParams& params, const Update& update,
                 absl::Span<const OptimizerRun> runs, const float* gradient_sum, const float* w_in,
                 float* w_out, float* state0, float* state1) {
  OptimizerParams averaged = params;
  averaged.kind = OptimizerKind::kMean;
  for (const OptimizerRun& run : runs) {
    const OptimizerStep step = {
        .lr = static_cast<float>(update.lr * run.lr_multiplier),
        .decay = params.weight_decay * run.decay_multiplier,
        .gradient_scale = update.gradient_scale,
        .update = update.number,
        .sgd_share = update.sgd_share,
        .rms_share = update.rms_share,
        .far = update.far,
    };
    const size_t at = run.offset;
    kernels.optimize(run.averaged ? averaged : params, step, gradient_sum + at, w_in + at,
                     w_out + at, state0 == nullptr ? nullptr : state0 + at,
                     state1 == nullptr ? nullptr : state1 + at, run.count);
  }
}

}  // namespace strata::kernels

#include "optimizer/update.h"

#include "optimizer/update_step.h"

namespace strata::kernels {

void ApplyUpdate(const Kernels& kernels, const OptimizerParams& params, const Update& update,
                 absl::Span<const OptimizerRun> runs, const float* gradient_sum, const float* w_in,
                 float* w_out, float* state0, float* state1) {
  for (const OptimizerRun& run : runs) {
    const size_t at = run.offset;
    kernels.optimize(RunParams(params, run), MakeStep(params, update, run), gradient_sum + at,
                     w_in + at, w_out + at, state0 == nullptr ? nullptr : state0 + at,
                     state1 == nullptr ? nullptr : state1 + at, run.count);
  }
}

}  // namespace strata::kernels

#ifndef STRATA_OPTIMIZER_UPDATE_H_
#define STRATA_OPTIMIZER_UPDATE_H_

#include "absl/types/span.h"
#include "common/job/arena.h"
#include "common/job/optimizer.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// One optimizer update of a chunk (or of a whole arena): what is the same for all of its runs.
struct Update {
  double lr = 0.0;  // the schedule's or the program's, times damping
  float gradient_scale = 1.0f;
  uint64_t number = 1;  // from 1; Adam's t
  bool far = false;     // as in OptimizerStep
  float sgd_share = 1.0f, rms_share = 0.0f;
};

// Applies `update` run by run, with each run's learning-rate and decay multipliers; runs that are
// averaged become the mean gradient. Whoever updates
// weights does it through this function, so that the same gradients give the same bits wherever the
// optimizer runs. Pointers as in Kernels::optimize; they cover all runs.
void ApplyUpdate(const Kernels& kernels, const OptimizerParams& params, const Update& update,
                 absl::Span<const OptimizerRun> runs, const float* gradient_sum, const float* w_in,
                 float* w_out, float* state0, float* state1);

}  // namespace strata::kernels

#endif  // STRATA_OPTIMIZER_UPDATE_H_

#ifndef STRATA_KERNELS_UPDATE_FACTORS_H_
#define STRATA_KERNELS_UPDATE_FACTORS_H_

#include <cmath>

#include "common/job/optimizer.h"
#include "kernels/kernels.h"

namespace strata::kernels {

// FTRL divides by the rate. At lower ones it changes nothing.
inline constexpr float kFtrlRateMin = 1e-30f;

// Scalars of one update, computed on the host for every device, so that all have the same bits.
struct UpdateFactors {
  float lr, decay, scale, momentum, beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon;
  float correct0, correct1;  // Adam's 1 / (1 - beta^t)
  float sgd_share, rms_share;
  float initial, l1, l2, beta;  // Adagrad's; FTRL's
};

inline UpdateFactors MakeFactors(const OptimizerParams& params, const OptimizerStep& step) {
  const double t = static_cast<double>(step.update);
  UpdateFactors f;
  f.lr = step.lr;
  f.decay = step.decay;
  f.scale = step.gradient_scale;
  f.momentum = params.momentum;
  f.beta1 = params.beta1;
  f.beta2 = params.beta2;
  f.one_minus_beta1 = 1.0f - params.beta1;
  f.one_minus_beta2 = 1.0f - params.beta2;
  f.epsilon = params.epsilon;
  f.correct0 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(params.beta1), t)));
  f.correct1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(params.beta2), t)));
  f.sgd_share = step.sgd_share;
  f.rms_share = step.rms_share;
  f.initial = params.initial_accumulator;
  f.l1 = params.l1;
  f.l2 = params.l2;
  f.beta = params.beta;
  return f;
}

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_UPDATE_FACTORS_H_

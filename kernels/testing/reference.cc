#include "kernels/testing/reference.h"

#include <cmath>

namespace strata::kernels::reference {
namespace {

float TreeAt(absl::Span<const float* const> inputs, size_t i) {
  if (inputs.size() == 1) return inputs[0][i];
  size_t left = 1;
  while (left * 2 < inputs.size()) left *= 2;
  return TreeAt(inputs.subspan(0, left), i) + TreeAt(inputs.subspan(left), i);
}

}  // namespace

void Sum(absl::Span<const float* const> inputs, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = TreeAt(inputs, i);
}

void Optimize(const OptimizerParams& p, const OptimizerStep& step, const float* gradient_sum,
              const float* w_in, float* w_out, float* state0, float* state1, size_t n) {
  const double t = static_cast<double>(step.update);
  const float correct0 = static_cast<float>(1.0 / (1.0 - std::pow(double{p.beta1}, t)));
  const float correct1 = static_cast<float>(1.0 / (1.0 - std::pow(double{p.beta2}, t)));
  for (size_t i = 0; i < n; ++i) {
    const float w = w_in[i];
    const float g = step.gradient_scale * gradient_sum[i];
    const float decayed = g + step.decay * w;
    if (p.kind == OptimizerKind::kMean) {
      w_out[i] = g;
      continue;
    }
    if (p.kind == OptimizerKind::kRmspropWarmup) {
      state0[i] = p.beta2 * state0[i] + (1.0f - p.beta2) * (decayed * decayed);
      const float share = step.sgd_share + step.rms_share / (std::sqrt(state0[i]) + p.epsilon);
      state1[i] = p.momentum * state1[i] - share * decayed;
      w_out[i] = w + step.lr * state1[i];
      continue;
    }
    float direction = decayed;
    if (p.kind == OptimizerKind::kMomentumSgd) {
      state0[i] = p.momentum * state0[i] + decayed;
      direction = state0[i];
    } else if (p.kind == OptimizerKind::kNesterov) {
      state0[i] = p.momentum * state0[i] + decayed;
      direction = decayed + p.momentum * state0[i];
    } else if (p.kind == OptimizerKind::kAdam || p.kind == OptimizerKind::kAdamW) {
      const float moment = p.kind == OptimizerKind::kAdam ? decayed : g;
      state0[i] = p.beta1 * state0[i] + (1.0f - p.beta1) * moment;
      state1[i] = p.beta2 * state1[i] + (1.0f - p.beta2) * (moment * moment);
      direction = (state0[i] * correct0) / (std::sqrt(state1[i] * correct1) + p.epsilon);
      if (p.kind == OptimizerKind::kAdamW) direction = direction + step.decay * w;
    }
    w_out[i] = w - step.lr * direction;
  }
}

void Compensate(const DelayCompensation& how, float scale, const float* gradient_sum,
                const float* w, const float* w_base, float* mean_square, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const float g = scale * gradient_sum[i];
    float lambda = how.lambda;
    if (how.adaptive) {
      mean_square[i] = how.decay * mean_square[i] + (1.0f - how.decay) * (g * g);
      lambda = how.lambda / std::sqrt(mean_square[i] + 1e-7f);
    }
    out[i] = g + lambda * g * g * (w[i] - w_base[i]);
  }
}

}  // namespace strata::kernels::reference

#include "kernels/cuda/update/elementwise.cuh"
#include "kernels/cuda/update/update.h"
#include "kernels/update_factors.h"

namespace strata::cuda {
namespace {

using Factors = kernels::UpdateFactors;

struct Vectors {
  const float* gradient_sum;
  const float* w_in;
  float* w_out;
  float* state0;
  float* state1;
};

template <OptimizerKind kKind>
inline constexpr int kStatesOf = StateVectors(kKind);

// Updates both moments; the corrected m / (sqrt(v) + epsilon).
__device__ __forceinline__ float AdamRatio(const Factors& f, float g, float& m, float& v) {
  m = f.beta1 * m + f.one_minus_beta1 * g;
  v = f.beta2 * v + f.one_minus_beta2 * (g * g);
  return __fdiv_rn(m * f.correct0, __fsqrt_rn(v * f.correct1) + f.epsilon);
}

// The new weight for w and a sum of gradients; updates its state. Formulas: proto/job.proto.
template <OptimizerKind kKind>
__device__ __forceinline__ float Updated(const Factors& f, float w, float sum, float& state0,
                                         float& state1) {
  const float g = f.scale * sum;
  const float decayed = g + f.decay * w;
  if constexpr (kKind == OptimizerKind::kMean) {
    return g;
  } else if constexpr (kKind == OptimizerKind::kSgd) {
    return w - f.lr * decayed;
  } else if constexpr (kKind == OptimizerKind::kMomentumSgd) {
    state0 = f.momentum * state0 + decayed;
    return w - f.lr * state0;
  } else if constexpr (kKind == OptimizerKind::kNesterov) {
    state0 = f.momentum * state0 + decayed;
    return w - f.lr * (decayed + f.momentum * state0);
  } else if constexpr (kKind == OptimizerKind::kAdam) {
    return w - f.lr * AdamRatio(f, decayed, state0, state1);
  } else if constexpr (kKind == OptimizerKind::kAdamW) {
    return w - f.lr * (AdamRatio(f, g, state0, state1) + f.decay * w);
  } else if constexpr (kKind == OptimizerKind::kAdagrad) {
    state0 = state0 + decayed * decayed;
    return w - f.lr * __fdiv_rn(decayed, __fsqrt_rn(state0 + f.initial) + f.epsilon);
  } else if constexpr (kKind == OptimizerKind::kFtrl) {
    if (f.lr < kernels::kFtrlRateMin) return w;
    const float squares = state1 + decayed * decayed;
    const float root_before = __fsqrt_rn(state1), root = __fsqrt_rn(squares);
    const float slope_before = __fdiv_rn(f.beta + root_before, f.lr) + f.l2;
    const float slope = __fdiv_rn(f.beta + root, f.lr) + f.l2;
    const float of_weight = -(w * slope_before) - copysignf(f.l1, w);
    const float sigma = __fdiv_rn(root - root_before, f.lr);
    const float z = (w == 0.0f ? state0 : of_weight) + (decayed - sigma * w);
    const float beyond = z - copysignf(f.l1, z);
    state0 = z;
    state1 = squares;
    return fabsf(z) <= f.l1 ? 0.0f : -__fdiv_rn(beyond, slope);
  } else {
    static_assert(kKind == OptimizerKind::kRmspropWarmup);
    state0 = f.beta2 * state0 + f.one_minus_beta2 * (decayed * decayed);
    const float share = f.sgd_share + __fdiv_rn(f.rms_share, __fsqrt_rn(state0) + f.epsilon);
    state1 = f.momentum * state1 - share * decayed;
    return w + f.lr * state1;
  }
}

template <OptimizerKind kKind, typename T>
__global__ void __launch_bounds__(kThreads) OptimizeKernel(Factors f, Vectors v, size_t n) {
  constexpr int kStates = kStatesOf<kKind>;
  ForEachItem<T>(n, [&](auto item, size_t at) {
    using Item = decltype(item);
    const Item sum = Read<Item>(v.gradient_sum, at);
    Item w = {}, state0 = {}, state1 = {};
    if constexpr (kKind != OptimizerKind::kMean) w = Read<Item>(v.w_in, at);
    if constexpr (kStates > 0) state0 = Read<Item>(v.state0, at);
    if constexpr (kStates > 1) state1 = Read<Item>(v.state1, at);
#pragma unroll
    for (unsigned j = 0; j < kElements<Item>; ++j) {
      Element(w, j) =
          Updated<kKind>(f, Element(w, j), Element(sum, j), Element(state0, j), Element(state1, j));
    }
    Write(w, v.w_out, at);
    if constexpr (kStates > 0) Write(state0, v.state0, at);
    if constexpr (kStates > 1) Write(state1, v.state1, at);
  });
}

template <typename T>
absl::Status Launch(CudaStream& stream, OptimizerKind kind, const Factors& f, const Vectors& v,
                    size_t n) {
  const auto launch = [&](auto kernel) {
    return stream.Launch("optimize", BlocksForAll(n / kElements<T>), ThreadsOfBlock(), kernel, f, v,
                         n);
  };
  switch (kind) {
    case OptimizerKind::kSgd:
      return launch(&OptimizeKernel<OptimizerKind::kSgd, T>);
    case OptimizerKind::kMomentumSgd:
      return launch(&OptimizeKernel<OptimizerKind::kMomentumSgd, T>);
    case OptimizerKind::kNesterov:
      return launch(&OptimizeKernel<OptimizerKind::kNesterov, T>);
    case OptimizerKind::kAdam:
      return launch(&OptimizeKernel<OptimizerKind::kAdam, T>);
    case OptimizerKind::kAdamW:
      return launch(&OptimizeKernel<OptimizerKind::kAdamW, T>);
    case OptimizerKind::kRmspropWarmup:
      return launch(&OptimizeKernel<OptimizerKind::kRmspropWarmup, T>);
    case OptimizerKind::kAdagrad:
      return launch(&OptimizeKernel<OptimizerKind::kAdagrad, T>);
    case OptimizerKind::kFtrl:
      return launch(&OptimizeKernel<OptimizerKind::kFtrl, T>);
    case OptimizerKind::kMean:
      return launch(&OptimizeKernel<OptimizerKind::kMean, T>);
  }
  return absl::InvalidArgumentError("no such optimizer");
}

}  // namespace

absl::Status Optimize(device::Stream& stream, const OptimizerParams& params,
                      const kernels::OptimizerStep& step, const float* gradient_sum,
                      const float* w_in, float* w_out, float* state0, float* state1, size_t n) {
  if (n == 0) return absl::OkStatus();
  const Factors f = kernels::MakeFactors(params, step);
  const Vectors v = {gradient_sum, w_in, w_out, state0, state1};
  const bool aligned = IsAligned(gradient_sum) && IsAligned(w_in) && IsAligned(w_out) &&
                       IsAligned(state0) && IsAligned(state1);
  return aligned ? Launch<float4>(Cast(stream), params.kind, f, v, n)
                 : Launch<float>(Cast(stream), params.kind, f, v, n);
}

}  // namespace strata::cuda

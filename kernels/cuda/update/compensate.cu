#include "kernels/cuda/update/elementwise.cuh"
#include "kernels/cuda/update/update.h"

namespace strata::cuda {
namespace {

// Scalars of a correction, computed on the host, with the CPU's bits.
struct Factors {
  float scale, lambda, decay, one_minus_decay;
};

struct Vectors {
  const float* gradient_sum;
  const float* w;
  const float* w_base;
  float* mean_square;
  float* out;
};

template <bool kAdaptive, typename T>
__global__ void __launch_bounds__(kThreads) CompensateKernel(Factors f, Vectors v, size_t n) {
  ForEachItem<T>(n, [&](auto item, size_t at) {
    using Item = decltype(item);
    const Item sum = Read<Item>(v.gradient_sum, at);
    const Item w = Read<Item>(v.w, at), base = Read<Item>(v.w_base, at);
    Item square = {}, out;
    if constexpr (kAdaptive) square = Read<Item>(v.mean_square, at);
#pragma unroll
    for (unsigned j = 0; j < kElements<Item>; ++j) {
      const float g = f.scale * Element(sum, j);
      float lambda = f.lambda;
      if constexpr (kAdaptive) {
        const float m = f.decay * Element(square, j) + f.one_minus_decay * (g * g);
        Element(square, j) = m;
        lambda = __fdiv_rn(lambda, __fsqrt_rn(m + 1e-7f));
      }
      Element(out, j) = g + lambda * g * g * (Element(w, j) - Element(base, j));
    }
    Write(out, v.out, at);
    if constexpr (kAdaptive) Write(square, v.mean_square, at);
  });
}

template <typename T>
absl::Status Launch(CudaStream& stream, bool adaptive, const Factors& f, const Vectors& v,
                    size_t n) {
  return stream.Launch("compensate", BlocksForAll(n / kElements<T>), ThreadsOfBlock(),
                       adaptive ? &CompensateKernel<true, T> : &CompensateKernel<false, T>, f, v,
                       n);
}

}  // namespace

absl::Status Compensate(device::Stream& stream, const DelayCompensation& how, float scale,
                        const float* gradient_sum, const float* w, const float* w_base,
                        float* mean_square, float* out, size_t n) {
  if (n == 0) return absl::OkStatus();
  const Factors f = {scale, how.lambda, how.decay, 1.0f - how.decay};
  const Vectors v = {gradient_sum, w, w_base, mean_square, out};
  const bool aligned = IsAligned(gradient_sum) && IsAligned(w) && IsAligned(w_base) &&
                       IsAligned(out) && (!how.adaptive || IsAligned(mean_square));
  return aligned ? Launch<float4>(Cast(stream), how.adaptive, f, v, n)
                 : Launch<float>(Cast(stream), how.adaptive, f, v, n);
}

}  // namespace strata::cuda

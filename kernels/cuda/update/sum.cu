#include "absl/strings/str_format.h"
#include "kernels/cuda/update/elementwise.cuh"
#include "kernels/cuda/update/update.h"

namespace strata::cuda {
namespace {

struct Inputs {
  const float* at[device::kSumInputsMax];
};

__device__ __forceinline__ float Plus(float a, float b) { return a + b; }
__device__ __forceinline__ float4 Plus(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ __forceinline__ bool AreFinite(float x) { return IsFinite(x); }
__device__ __forceinline__ bool AreFinite(float4 x) {
  return IsFinite(x.x) && IsFinite(x.y) && IsFinite(x.z) && IsFinite(x.w);
}

// The balanced tree over inputs: sums of 2^b inputs wait in parts[b], like the digits of a binary
// counter; the remaining parts are finally added from the right. Everything is in registers:
// indices are constant once the loops are unrolled.
constexpr unsigned kLevels = 8;  // kSumInputsMax is 2^7

template <typename T>
__device__ __forceinline__ T AddFromTheRight(const T (&parts)[kLevels], unsigned leaves) {
  T sum = {};
  bool any = false;
#pragma unroll
  for (unsigned level = 0; level < kLevels; ++level) {
    if ((leaves >> level & 1) == 0) continue;
    sum = any ? Plus(parts[level], sum) : parts[level];
    any = true;
  }
  return sum;
}

// Sums kInputs inputs or, if that is 0, any `count`: by fours, which are read together.
template <unsigned kInputs, typename T>
__device__ __forceinline__ T TreeSum(const Inputs& inputs, unsigned count, size_t i) {
  T parts[kLevels] = {};
  const auto input = [&](unsigned j) { return reinterpret_cast<const T*>(inputs.at[j])[i]; };
  if constexpr (kInputs != 0) {
#pragma unroll
    for (unsigned j = 0; j < kInputs; ++j) {
      T value = input(j);
      unsigned level = 0;
#pragma unroll
      for (; (j >> level & 1) != 0; ++level) value = Plus(parts[level], value);
      parts[level] = value;
    }
    return AddFromTheRight(parts, kInputs);
  } else {
    const unsigned fours = count / 4, rest = 4 * fours;
    for (unsigned four = 0; four < fours; ++four) {
      const T a = input(4 * four), b = input(4 * four + 1);
      const T c = input(4 * four + 2), d = input(4 * four + 3);
      T value = Plus(Plus(a, b), Plus(c, d));
      bool carries = true;
#pragma unroll
      for (unsigned level = 2; level < kLevels; ++level) {
        if (!carries) continue;
        carries = (four >> (level - 2) & 1) != 0;
        value = carries ? Plus(parts[level], value) : value;
        if (!carries) parts[level] = value;
      }
    }
    if ((count & 2) != 0) parts[1] = Plus(input(rest), input(rest + 1));
    if ((count & 1) != 0) parts[0] = input(count - 1);
    return AddFromTheRight(parts, count);
  }
}

// out[i] of items that are T, and then of `rest` single elements behind them.
template <unsigned kInputs, typename T>
__global__ void __launch_bounds__(kThreads)
    SumKernel(Inputs inputs, unsigned count, float* out, size_t items, size_t rest,
              device::Verdict* verdict) {
  bool good = true;
  for (size_t i = FirstItem(); i < items; i += ItemStride()) {
    const T sum = TreeSum<kInputs, T>(inputs, count, i);
    reinterpret_cast<T*>(out)[i] = sum;
    good = good && AreFinite(sum);
  }
  const size_t done = items * (sizeof(T) / sizeof(float));
  for (size_t i = FirstItem(); i < rest; i += ItemStride()) {
    const float sum = TreeSum<kInputs, float>(inputs, count, done + i);
    out[done + i] = sum;
    good = good && AreFinite(sum);
  }
  if (!good) Worsen(verdict, device::kBad);
}

template <typename T>
absl::Status Launch(CudaStream& stream, const Inputs& inputs, unsigned count, float* out, size_t n,
                    device::Verdict* verdict) {
  constexpr size_t kWidth = sizeof(T) / sizeof(float);
  const auto launch = [&](auto kernel) {
    return stream.Launch("sum", BlocksForAll(n / kWidth), ThreadsOfBlock(), kernel, inputs, count,
                         out, n / kWidth, n % kWidth, verdict);
  };
  switch (count) {
    case 1:
      return launch(&SumKernel<1, T>);
    case 2:
      return launch(&SumKernel<2, T>);
    case 3:
      return launch(&SumKernel<3, T>);
    case 4:
      return launch(&SumKernel<4, T>);
    case 8:
      return launch(&SumKernel<8, T>);
    default:
      return launch(&SumKernel<0, T>);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    CheckKernel(const float* x, size_t items, size_t rest, device::Verdict* verdict) {
  bool good = true;
  for (size_t i = FirstItem(); i < items; i += ItemStride()) {
    good = good && AreFinite(reinterpret_cast<const T*>(x)[i]);
  }
  const size_t done = items * (sizeof(T) / sizeof(float));
  for (size_t i = FirstItem(); i < rest; i += ItemStride()) good = good && AreFinite(x[done + i]);
  if (!good) Worsen(verdict, device::kBad);
}

template <typename T>
absl::Status Check(CudaStream& stream, const float* x, size_t n, device::Verdict* verdict) {
  constexpr size_t kWidth = sizeof(T) / sizeof(float);
  return stream.Launch("check finite", BlocksForAll(n / kWidth), ThreadsOfBlock(), &CheckKernel<T>,
                       x, n / kWidth, n % kWidth, verdict);
}

}  // namespace

absl::Status Sum(device::Stream& stream, absl::Span<const float* const> inputs, float* out,
                 size_t n, device::Verdict* verdict) {
  if (inputs.empty() || inputs.size() > device::kSumInputsMax) {
    return absl::InvalidArgumentError(absl::StrFormat("a sum of %d inputs, not of 1 to %d",
                                                      inputs.size(), device::kSumInputsMax));
  }
  if (n == 0) return absl::OkStatus();
  Inputs all = {};
  std::copy(inputs.begin(), inputs.end(), all.at);
  const bool aligned = IsAligned(out) && std::all_of(inputs.begin(), inputs.end(),
                                                     [](auto x) { return IsAligned(x); });
  const auto count = static_cast<unsigned>(inputs.size());
  return aligned ? Launch<float4>(Cast(stream), all, count, out, n, verdict)
                 : Launch<float>(Cast(stream), all, count, out, n, verdict);
}

absl::Status CheckFinite(device::Stream& stream, const float* x, size_t n,
                         device::Verdict* verdict) {
  if (n == 0) return absl::OkStatus();
  return IsAligned(x) ? Check<float4>(Cast(stream), x, n, verdict)
                      : Check<float>(Cast(stream), x, n, verdict);
}

}  // namespace strata::cuda

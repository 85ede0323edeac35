#include <cuda_fp16.h>

#include "kernels/cuda/codec/codecs.h"
#include "kernels/cuda/codec/dense_codec.cuh"

namespace strata::cuda {
namespace {

// True if both 16-bit codes of a word are below `limit` without their signs.
__device__ __forceinline__ bool HalvesAreBelow(unsigned word, unsigned limit) {
  return (word & 0x7fff) < limit && (word >> 16 & 0x7fff) < limit;
}

struct Float16 {
  static constexpr bool kScaled = true;
  static constexpr unsigned kBits = 16;

  float scale, factor;

  // The largest magnitude becomes 2^14 to 2^15, where the halves' range allows it.
  __device__ __forceinline__ bool Fit(unsigned largest) {
    if (largest >= 0x7f7ff000) return false;  // would round to 2^128
    int up = 14 - (static_cast<int>(largest >> 23) - 127);
    up = up < -112 ? -112 : up > 125 ? 125 : up;
    scale = __uint_as_float(static_cast<unsigned>(127 - up) << 23);
    factor = __uint_as_float(static_cast<unsigned>(127 + up) << 23);
    return true;
  }
  __device__ __forceinline__ unsigned Encode(float p, float& decoded) const {
    const __half half = __float2half_rn(p * factor);
    decoded = __half2float(half) * scale;
    return __half_as_ushort(half);
  }

  static __device__ __forceinline__ bool ScaleIsGood(unsigned bits) {
    return (bits & 0x7fffff) == 0 && bits >= __float_as_uint(wire::kFloat16ScaleMin) &&
           bits <= __float_as_uint(wire::kFloat16ScaleMax);
  }
  static __device__ __forceinline__ bool CodesAreGood(unsigned word) {
    return HalvesAreBelow(word, 0x7c00);
  }

  static __device__ __forceinline__ float FromHalf(unsigned half, float scale) {
    return __half2float(__ushort_as_half(static_cast<uint16_t>(half))) * scale;
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float scale,
                                                float4& to) {
    const uint2 pair = ReadPair(codes + 2 * at);
    to = make_float4(FromHalf(pair.x & 0xffff, scale), FromHalf(pair.x >> 16, scale),
                     FromHalf(pair.y & 0xffff, scale), FromHalf(pair.y >> 16, scale));
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float scale,
                                                float& to) {
    to = FromHalf(reinterpret_cast<const uint16_t*>(codes)[at], scale);
  }
};

struct BFloat16 {
  static constexpr bool kScaled = false;
  static constexpr unsigned kBits = 16;

  // Bits, rounded to nearest even.
  static __device__ __forceinline__ unsigned Encode(unsigned bits) {
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  }
  static __device__ __forceinline__ bool ScaleIsGood(unsigned) { return true; }
  static __device__ __forceinline__ bool CodesAreGood(unsigned word) {
    return HalvesAreBelow(word, 0x7f80);
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float,
                                                float4& to) {
    const uint2 pair = ReadPair(codes + 2 * at);
    to = make_float4(__uint_as_float(pair.x << 16), __uint_as_float(pair.x & 0xffff0000),
                     __uint_as_float(pair.y << 16), __uint_as_float(pair.y & 0xffff0000));
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float,
                                                float& to) {
    const unsigned half = reinterpret_cast<const uint16_t*>(codes)[at];
    to = __uint_as_float(half << 16);
  }
};

__device__ __forceinline__ void WriteHalves(const float4& upper, std::byte* payload, size_t at) {
  const uint2 pair =
      make_uint2(__float_as_uint(upper.x) >> 16 | (__float_as_uint(upper.y) & 0xffff0000),
                 __float_as_uint(upper.z) >> 16 | (__float_as_uint(upper.w) & 0xffff0000));
  *reinterpret_cast<uint2*>(payload + 2 * at) = pair;
}
__device__ __forceinline__ void WriteHalves(float upper, std::byte* payload, size_t at) {
  reinterpret_cast<uint16_t*>(payload)[at] = static_cast<uint16_t>(__float_as_uint(upper) >> 16);
}

// Without scales, each element stands alone.
template <Feedback kFeedback, typename T>
__global__ void __launch_bounds__(kThreads)
    EncodeBFloat16Kernel(const float* x, float* state, size_t n, std::byte* payload,
                         device::Verdict* verdict) {
  bool good = true;
  ForEachItem<T>(n, [&](auto item, size_t at) {
    using Item = decltype(item);
    item = Read<Item>(x, at);
    Item kept = {}, decoded;
    if constexpr (kFeedback != Feedback::kNone) kept = Read<Item>(state, at);
#pragma unroll
    for (unsigned j = 0; j < kElements<Item>; ++j) {
      const float p = ToSend<kFeedback>(Element(item, j), Element(kept, j));
      const unsigned bits = __float_as_uint(p);
      // From there on it would round to 2^128.
      good = good && (bits & 0x7fffffff) < 0x7f7f8000;
      Element(decoded, j) = __uint_as_float(BFloat16::Encode(bits) << 16);
      Element(kept, j) = Kept<kFeedback>(p, Element(kept, j), Element(decoded, j));
    }
    WriteHalves(decoded, payload, at);
    if constexpr (kFeedback != Feedback::kNone) Write(kept, state, at);
  });
  if (!good) Worsen(verdict, device::kBad);
}

absl::Status EncodeBFloat16(device::Stream& stream, const float* x, Feedback feedback, float* state,
                            size_t n, std::byte* payload, device::Verdict* verdict) {
  if (n == 0) return absl::OkStatus();
  if (feedback == Feedback::kNone) state = nullptr;
  const auto launch = [&](auto kernel, size_t items) {
    return Cast(stream).Launch("encode", BlocksForAll(items), ThreadsOfBlock(), kernel, x, state, n,
                               payload, verdict);
  };
  const bool aligned = IsAligned(x) && IsAligned(state);
  return WithFeedback(feedback, [&](auto kind) {
    constexpr Feedback kFeedback = decltype(kind)::value;
    return aligned ? launch(&EncodeBFloat16Kernel<kFeedback, float4>, n / 4)
                   : launch(&EncodeBFloat16Kernel<kFeedback, float>, n);
  });
}

}  // namespace

device::DeviceDenseCodec Float16Codec() {
  return {EncodeByLargest<Float16>, CheckPayload<Float16>, Decode<Float16>};
}
device::DeviceDenseCodec BFloat16Codec() {
  return {EncodeBFloat16, CheckPayload<BFloat16>, Decode<BFloat16>};
}

}  // namespace strata::cuda

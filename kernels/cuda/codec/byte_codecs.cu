#include "kernels/cuda/codec/codecs.h"
#include "kernels/cuda/codec/dense_codec.cuh"

namespace strata::cuda {
namespace {

struct Int8 {
  static constexpr bool kScaled = true;
  static constexpr unsigned kBits = 8;
  // Its unit is 1: the addition rounds to nearest even and leaves the code in the lowest byte.
  static constexpr float kRounder = 0x1.8p23f;

  float scale, inverse;

  // Rounded up to 16 significant bits: then fp32 represents code * scale.
  __device__ __forceinline__ bool Fit(unsigned largest) {
    if (largest >= 0x7f800000) return false;
    const unsigned exact = __float_as_uint(__fdiv_rn(__uint_as_float(largest), 127.0f));
    scale = __uint_as_float((exact + 0xff) & ~0xffu);
    if (scale < wire::kInt8ScaleMin) scale = wire::kInt8ScaleMin;
    if (scale > wire::kInt8ScaleMax) scale = wire::kInt8ScaleMax;
    inverse = __fdiv_rn(1.0f, scale);
    return true;
  }
  __device__ __forceinline__ unsigned Encode(float p, float& decoded) const {
    const float rounded = p * inverse + kRounder;
    decoded = (rounded - kRounder) * scale;
    return __float_as_uint(rounded) & 0xff;
  }

  static __device__ __forceinline__ bool ScaleIsGood(unsigned bits) {
    return (bits & 0xff) == 0 && bits >= __float_as_uint(wire::kInt8ScaleMin) &&
           bits <= __float_as_uint(wire::kInt8ScaleMax);
  }
  // No byte is 0x80.
  static __device__ __forceinline__ bool CodesAreGood(unsigned word) {
    const unsigned zero_if_bad = word ^ 0x80808080;
    return ((zero_if_bad - 0x01010101) & ~zero_if_bad & 0x80808080) == 0;
  }

  static __device__ __forceinline__ float FromByte(unsigned code, float scale) {
    return __int2float_rn(static_cast<int8_t>(code)) * scale;
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float scale,
                                                float4& to) {
    const unsigned word = *reinterpret_cast<const unsigned*>(codes + at);
    to = make_float4(FromByte(word & 0xff, scale), FromByte(word >> 8 & 0xff, scale),
                     FromByte(word >> 16 & 0xff, scale), FromByte(word >> 24, scale));
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float scale,
                                                float& to) {
    to = FromByte(static_cast<unsigned>(codes[at]), scale);
  }
};

struct OneBit {
  static constexpr bool kScaled = true;
  static constexpr unsigned kBits = 1;

  static __device__ __forceinline__ float Value(float scale) {
    return scale == wire::kOneBitScaleZero ? 0.0f : scale;
  }
  // The lowest bit of `code` is the sign.
  static __device__ __forceinline__ float Signed(unsigned code, float value) {
    return __uint_as_float(__float_as_uint(value) | code << 31);
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float scale,
                                                float4& to) {
    const unsigned code = static_cast<unsigned>(codes[at / 8]) >> (at % 8);
    const float value = Value(scale);
    to = make_float4(Signed(code, value), Signed(code >> 1, value), Signed(code >> 2, value),
                     Signed(code >> 3, value));
  }
  static __device__ __forceinline__ void Decode(const std::byte* codes, size_t at, float scale,
                                                float& to) {
    to = Signed(static_cast<unsigned>(codes[at / 8]) >> (at % 8), Value(scale));
  }
};

// Dealt in rows, a lane holds just the elements of one of the 32 partial sums, in their order, and
// a row's signs are the votes of a warp.
template <Feedback kFeedback>
__global__ void __launch_bounds__(kEncodeThreads)
    EncodeOneBitKernel(const float* x, float* state, size_t n, std::byte* payload, size_t blocks,
                       device::Verdict* verdict) {
  static_assert(kPerLane == kLanes);
  const size_t nth = FirstItem() / kLanes;
  if (nth >= blocks) return;
  const unsigned lane = threadIdx.x % kLanes;
  const auto block = BlockOf<OneBit::kBits>(nth, blocks, x, state, n, payload, verdict);
  float p[kPerLane], kept[kPerLane];
  ReadBlock<Deal::kRows>(block.x, block.count, lane, p);
  if constexpr (kFeedback != Feedback::kNone) {
    ReadBlock<Deal::kRows>(block.state, block.count, lane, kept);
  }
  float sum = 0;
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    if constexpr (kFeedback != Feedback::kNone) p[r] = ToSend<kFeedback>(p[r], kept[r]);
    sum = sum + __uint_as_float(__float_as_uint(p[r]) & 0x7fffffff);
  }
  // Halves onto halves; an addition has the same bits from either side.
#pragma unroll
  for (int half = kLanes / 2; half > 0; half /= 2) {
    sum = sum + __shfl_xor_sync(kAllLanes, sum, half);
  }
  if (!IsFinite(sum)) {
    if (lane == 0) Worsen(block.verdict, device::kBad);
    return;
  }
  float scale = __fdiv_rn(sum, __int2float_rn(static_cast<int>(block.count)));
  if (scale < wire::kOneBitScaleZero) scale = wire::kOneBitScaleZero;
  if (lane == 0) *block.scale = scale;
  const float value = OneBit::Value(scale);
  unsigned word = 0;
#pragma unroll
  for (unsigned r = 0; r < kPerLane; ++r) {
    const bool negative = p[r] < 0;
    const unsigned row = __ballot_sync(kAllLanes, negative);
    if (lane == r) word = row;
    if constexpr (kFeedback != Feedback::kNone) {
      kept[r] = Kept<kFeedback>(p[r], kept[r], negative ? -value : value);
    }
  }
  // Elements behind the end are 0, and so are their bits.
  const unsigned bytes = (block.count + 7) / 8;
  if (4 * lane + 4 <= bytes) {
    reinterpret_cast<unsigned*>(block.codes)[lane] = word;
  } else {
    for (unsigned at = 4 * lane; at < bytes; ++at, word >>= 8) {
      block.codes[at] = static_cast<std::byte>(word & 0xff);
    }
  }
  if constexpr (kFeedback != Feedback::kNone) {
    WriteBlock<Deal::kRows>(kept, block.count, lane, block.state);
  }
}

absl::Status EncodeOneBit(device::Stream& stream, const float* x, Feedback feedback, float* state,
                          size_t n, std::byte* payload, device::Verdict* verdict) {
  if (n == 0) return absl::OkStatus();
  if (feedback == Feedback::kNone) state = nullptr;
  return WithFeedback(feedback, [&](auto kind) {
    return Cast(stream).Launch("encode", BlocksOfEncoder(n), ThreadsOfEncoder(),
                               &EncodeOneBitKernel<decltype(kind)::value>, x, state, n, payload,
                               wire::CodecBlocks(n), verdict);
  });
}

// All bits are good but those behind the last element.
__global__ void __launch_bounds__(kThreads)
    CheckOneBitKernel(const std::byte* payload, size_t blocks, size_t n, device::Verdict* verdict) {
  const auto* scales = reinterpret_cast<const unsigned*>(payload);
  for (size_t i = FirstItem(); i < blocks; i += ItemStride()) {
    bool good = scales[i] >= __float_as_uint(wire::kOneBitScaleZero) && scales[i] < 0x7f800000;
    if (i + 1 == blocks && n % 8 != 0) {
      const std::byte last = payload[4 * blocks + n / 8];
      good = good && static_cast<unsigned>(last) >> (n % 8) == 0;
    }
    if (!good) Worsen(verdict, static_cast<device::Verdict>(i));
  }
}

absl::Status CheckOneBit(device::Stream& stream, const std::byte* payload, size_t n,
                         device::Verdict* verdict) {
  if (n == 0) return absl::OkStatus();
  const size_t blocks = wire::CodecBlocks(n);
  return Cast(stream).Launch("check", BlocksFor(Cast(stream), blocks), ThreadsOfBlock(),
                             &CheckOneBitKernel, payload, blocks, n, verdict);
}

}  // namespace

device::DeviceDenseCodec Int8Codec() {
  return {EncodeByLargest<Int8>, CheckPayload<Int8>, Decode<Int8>};
}
device::DeviceDenseCodec OneBitCodec() { return {EncodeOneBit, CheckOneBit, Decode<OneBit>}; }

}  // namespace strata::cuda

#ifndef STRATA_KERNELS_FAKE_CUDA_INCLUDE_CUDA_FP16_H_
#define STRATA_KERNELS_FAKE_CUDA_INCLUDE_CUDA_FP16_H_

#include <bit>
#include <cstdint>

// The part of CUDA's halves that kernels/cuda uses, in integer arithmetic.
struct __half {
  uint16_t bits;
};
inline uint16_t __half_as_ushort(__half half) { return half.bits; }
inline __half __ushort_as_half(uint16_t bits) { return {bits}; }

// Rounds to nearest even.
inline __half __float2half_rn(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7fff;  // NaN
  } else if (magnitude >= 0x477ff000) {
    half = 0x7c00;  // rounds to 2^16, which is infinity
  } else if (magnitude < 0x38800000) {
    // Below 2^-14 the unit is 2^-24, which is that of 0.5f: the addition rounds.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  } else {
    // Another bias of the exponent, and half a unit more, or just less where the half is even.
    half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return {static_cast<uint16_t>(half | (bits >> 16 & 0x8000))};
}

inline float __half2float(__half half) {
  const uint32_t magnitude = half.bits & 0x7fff, sign = half.bits & 0x8000;
  const float value = magnitude >= 0x7c00 ? std::bit_cast<float>(0x7f800000 | magnitude << 13)
                                          : std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign << 16);
}

#endif  // STRATA_KERNELS_FAKE_CUDA_INCLUDE_CUDA_FP16_H_

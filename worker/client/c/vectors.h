#ifndef STRATA_WORKER_CLIENT_C_VECTORS_H_
#define STRATA_WORKER_CLIENT_C_VECTORS_H_

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace strata::client {

// IEEE 754 binary16 to fp32: exact.
inline float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16, magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | (magnitude << 13));
  // 2^112 corrects the exponent bias, also for subnormal numbers.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// The inverse, rounded to nearest, ties to even; too large values become infinite.
inline uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14f) {
    // Subnormal: in units of 2^-24, to which the addition rounds.
    const float units = magnitude * 0x1p24f + 0x1p23f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(units) & 0x7fff));
  }
  const uint32_t kept = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = kept + 0xfff + (kept >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded - (112u << 23)) >> 13));
}

inline float FromBrain(uint16_t brain) { return std::bit_cast<float>(uint32_t{brain} << 16); }

inline uint16_t ToBrain(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace strata::client

// Conversion of other number types to fp32 and back in one pass over memory, by the instruction set
// of this machine; bit for bit what a plain loop gives, except for NaN payloads. Results longer
// than kernels::kFarBytes are written with non-temporal stores, but are visible to other threads
// and processes like any earlier store. Requires no alignment beyond that of the types.
namespace strata::client::vectors {

// Write `values` times `scale`. Return false if any product is not finite in fp32.
bool FromFloats(const float* values, float scale, float* to, size_t n);
bool FromDoubles(const double* values, double scale, float* to, size_t n);
bool FromHalves(const uint16_t* values, float scale, float* to, size_t n);
bool FromBrains(const uint16_t* values, float scale, float* to, size_t n);

// Round to nearest, ties to even; too large values become infinite.
void ToDoubles(const float* values, double* to, size_t n);
void ToHalves(const float* values, uint16_t* to, size_t n);
void ToBrains(const float* values, uint16_t* to, size_t n);

}  // namespace strata::client::vectors

#endif  // STRATA_WORKER_CLIENT_C_VECTORS_H_

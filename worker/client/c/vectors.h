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
  // 2^112 makes up for the other exponent, also where the number is subnormal.
  const float value = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// The same back, to nearest, ties to even; too large ones become infinite.
inline uint16_t ToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14f) {
    // Subnormal: in units of 2^-24, which the addition rounds to.
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

// Numbers of other types to fp32 and back in one pass over memory, by the instruction set of this
// machine; bit for bit what a plain loop gives, but for which NaN a NaN becomes. What is longer
// than kernels::kFarBytes is written past the caches, and is there for other threads and processes
// as any store before is. No alignment is needed beyond that of the types.
namespace strata::client::vectors {

// Write `values` times `scale`. False: one of the products is not finite as fp32.
bool FromFloats(const float* values, float scale, float* to, size_t n);
bool FromDoubles(const double* values, double scale, float* to, size_t n);
bool FromHalves(const uint16_t* values, float scale, float* to, size_t n);
bool FromBrains(const uint16_t* values, float scale, float* to, size_t n);

// Round to nearest, ties to even; what is too large becomes infinite.
void ToDoubles(const float* values, double* to, size_t n);
void ToHalves(const float* values, uint16_t* to, size_t n);
void ToBrains(const float* values, uint16_t* to, size_t n);

}  // namespace strata::client::vectors

#endif  // STRATA_WORKER_CLIENT_C_VECTORS_H_

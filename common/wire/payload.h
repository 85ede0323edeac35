#ifndef STRATA_COMMON_WIRE_PAYLOAD_H_
#define STRATA_COMMON_WIRE_PAYLOAD_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace strata::wire {

// The payload of a frame with n = element_count fp32 elements. All numbers are little-endian;
// floats are IEEE 754. Every format has exactly one size for given n (and, if sparse, count), and
// nothing but the values themselves varies: no padding, unused bits are 0. numerics/ checks,
// decodes and encodes them.
//
// Blocked formats divide the elements into blocks of kCodecBlock (the last may be shorter), each
// with an fp32 scale; B = CodecBlocks(n). The scales come first, then the codes of all elements.
//
//   kNone       offset  size          the elements as fp32
//               0       4 n
//
//   kFloat16    0       4 B   scales  powers of two, 2^-125 .. 2^112
//               4 B     2 n   halves  finite binary16; element = half * scale, which fp32
//               represents
//
//   kBFloat16   0       2 n   finite: the upper 16 bits of an fp32
//
//   kInt8       0       4 B   scales  kInt8ScaleMin .. kInt8ScaleMax, the 8 lowest bits 0, so that
//                                     fp32 represents every code * scale
//               4 B     n     codes   -127 .. 127; element = code * scale
//
//   kOneBit     0       4 B   scales  kOneBitScaleZero .. the largest float
//               4 B   ⌈n/8⌉   bits    of element i: bit i % 8 of byte i / 8; 0: element = scale,
//                                     1: element = -scale. Where the scale is kOneBitScaleZero
//                                     all elements of the block are (+ or -) 0.
//
//   kSparse     0       4     count   0 .. SparseCountMax(n)
//               4       4 count       indices, strictly ascending, < n
//               4 + 4 count  4 count  values of those elements, finite; all others are 0
enum class Codec : uint8_t {
  kNone = 0,
  kFloat16 = 1,
  kBFloat16 = 2,
  kInt8 = 3,
  kOneBit = 4,
  kSparse = 5,
};
inline constexpr int kCodecs = 6;

inline constexpr size_t kCodecBlock = 1024;
constexpr uint64_t CodecBlocks(uint64_t elements) {
  return (elements + kCodecBlock - 1) / kCodecBlock;
}

inline constexpr float kFloat16ScaleMin = 0x1p-125f, kFloat16ScaleMax = 0x1p112f;
inline constexpr float kInt8ScaleMin = 0x1p-126f;
inline constexpr float kInt8ScaleMax = 0x1.0204p121f;  // 127 of it are still below infinity
inline constexpr float kOneBitScaleZero = 0x1p-126f;

// A denser vector is smaller as kNone; vectors of one or two elements may have one value.
constexpr uint64_t SparseCountMax(uint64_t elements) {
  return elements == 0 ? 0 : std::max<uint64_t>(1, (elements - 1) / 2);
}

// The size of a payload of `elements`; for kSparse the largest one.
uint64_t EncodedBytesMax(Codec codec, uint64_t elements);

// Checks whether a payload of `bytes` can hold `elements`. Errors: InvalidArgument with both sizes.
absl::Status CheckEncodedBytes(Codec codec, uint64_t elements, uint64_t bytes);

std::string ToString(Codec codec);

}  // namespace strata::wire

#endif  // STRATA_COMMON_WIRE_PAYLOAD_H_

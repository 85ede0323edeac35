#ifndef STRATA_COMMON_WIRE_LITTLE_ENDIAN_H_
#define STRATA_COMMON_WIRE_LITTLE_ENDIAN_H_

#include <cstddef>

namespace strata::wire {

// Integers in the encoding of frames. `at` need not be aligned.
template <typename Int>
void Put(std::byte* at, Int value) {
  for (size_t i = 0; i < sizeof(Int); ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

template <typename Int>
Int Get(const std::byte* at) {
  Int value = 0;
  for (size_t i = 0; i < sizeof(Int); ++i) value |= static_cast<Int>(at[i]) << (8 * i);
  return value;
}

}  // namespace strata::wire

#endif  // STRATA_COMMON_WIRE_LITTLE_ENDIAN_H_

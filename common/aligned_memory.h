#ifndef STRATA_COMMON_ALIGNED_MEMORY_H_
#define STRATA_COMMON_ALIGNED_MEMORY_H_

#include <cstddef>
#include <memory>

namespace strata {

// Returns memory for `size` bytes at an address that is aligned for all types, also those of vector
// instructions, or to a multiple of `alignment`, a power of two, to which `size` is rounded up.
// Null: there is none.
std::shared_ptr<std::byte> AlignedMemory(size_t size, size_t alignment = 64);

}  // namespace strata

#endif  // STRATA_COMMON_ALIGNED_MEMORY_H_

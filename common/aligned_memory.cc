#include "common/aligned_memory.h"

#include <cstdlib>
#include <limits>

namespace strata {

std::shared_ptr<std::byte> AlignedMemory(size_t size) {
  constexpr size_t kAlignment = 64;
  if (size > std::numeric_limits<size_t>::max() - kAlignment) return nullptr;
  // aligned_alloc wants a multiple of the alignment.
  void* const memory =
      std::aligned_alloc(kAlignment, (size + kAlignment) / kAlignment * kAlignment);
  if (memory == nullptr) return nullptr;
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace strata

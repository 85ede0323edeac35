#include "common/aligned_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace strata {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

}  // namespace

std::shared_ptr<std::byte> AlignedMemory(size_t size, size_t alignment) {
  if (size >= kLargePage) alignment = std::max(alignment, kLargePage);
  if (size > std::numeric_limits<size_t>::max() - alignment) return nullptr;
  // aligned_alloc wants a multiple of the alignment.
  const size_t rounded = (std::max<size_t>(size, 1) + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) return nullptr;
  // Large pages cost a five-hundredth of the faults. The kernel may say no.
  if (rounded >= kLargePage) madvise(memory, rounded, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace strata

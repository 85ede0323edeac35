#include "rows/block_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/require.h"

namespace strata::rows {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void AddressSpace::Unmap::operator()(std::byte* at) const { munmap(at, bytes); }

absl::StatusOr<AddressSpace> AddressSpace::Reserve(size_t bytes) {
  // One more page, so that it begins at the start of one.
  const size_t mapped_bytes = bytes + kHugePage;
  void* const at = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "%d bytes of address space cannot be reserved: %s", mapped_bytes, std::strerror(errno)));
  }
  Mapped mapped(static_cast<std::byte*>(at), {mapped_bytes});
  const size_t skipped = (kHugePage - reinterpret_cast<uintptr_t>(at) % kHugePage) % kHugePage;
  std::byte* const begin = mapped.get() + skipped;
  // Small tables stay small. A system without huge pages ignores this.
  if (bytes > kHugePage) madvise(begin + kHugePage, bytes - kHugePage, MADV_HUGEPAGE);
  return AddressSpace(std::move(mapped), begin);
}

absl::StatusOr<BlockPool> BlockPool::Create(size_t block_bytes, uint64_t blocks_max) {
  STRATA_REQUIRE(blocks_max >> 32 == 0);
  absl::StatusOr<AddressSpace> space = AddressSpace::Reserve(block_bytes * blocks_max);
  if (!space.ok()) return space.status();
  return BlockPool(*std::move(space), block_bytes, static_cast<uint32_t>(blocks_max));
}

uint32_t BlockPool::Take() {
  if (!free_.empty()) {
    const uint32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  STRATA_REQUIRE(used_ < blocks_max_);
  return used_++;
}

}  // namespace strata::rows

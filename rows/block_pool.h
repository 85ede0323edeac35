#ifndef STRATA_ROWS_BLOCK_POOL_H_
#define STRATA_ROWS_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::rows {

// Reserved address space. The system gives memory, all zeros, when it is written to: from the third
// MiB on in huge pages, since each row of a large table would miss the TLB otherwise.
class AddressSpace {
 public:
  // Errors: ResourceExhausted.
  static absl::StatusOr<AddressSpace> Reserve(size_t bytes);

  std::byte* begin() const { return begin_; }  // at the start of a huge page

 private:
  struct Unmap {
    size_t bytes = 0;
    void operator()(std::byte* at) const;
  };
  using Mapped = std::unique_ptr<std::byte, Unmap>;

  AddressSpace(Mapped mapped, std::byte* begin) : mapped_(std::move(mapped)), begin_(begin) {}

  Mapped mapped_;
  std::byte* begin_;
};

// Memory in blocks of one size, by number. Blocks that are given back are handed out again, but
// their memory stays this process's.
//
// Threads: one at a time; At from any.
class BlockPool {
 public:
  // Errors: those of AddressSpace::Reserve. REQUIRES: blocks_max < 2^32.
  static absl::StatusOr<BlockPool> Create(size_t block_bytes, uint64_t blocks_max);

  // Returns the number of a block with undefined content. REQUIRES: fewer than blocks_max are
  // taken.
  uint32_t Take();
  void GiveBack(uint32_t block) { free_.push_back(block); }
  std::byte* At(uint32_t block) const { return space_.begin() + size_t{block} * block_bytes_; }

  // Bytes of blocks that were ever taken.
  size_t memory_bytes() const { return size_t{used_} * block_bytes_; }

 private:
  BlockPool(AddressSpace space, size_t block_bytes, uint32_t blocks_max)
      : space_(std::move(space)), block_bytes_(block_bytes), blocks_max_(blocks_max) {}

  AddressSpace space_;
  size_t block_bytes_;
  uint32_t blocks_max_;
  uint32_t used_ = 0;
  std::vector<uint32_t> free_;
};

}  // namespace strata::rows

#endif  // STRATA_ROWS_BLOCK_POOL_H_

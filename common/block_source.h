#ifndef STRATA_COMMON_BLOCK_SOURCE_H_
#define STRATA_COMMON_BLOCK_SOURCE_H_

#include <cstddef>

namespace strata {

// Gives a BufferPool its memory, in place of the allocator.
//
// Threads: all calls from any thread.
class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // Returns 64-byte aligned memory; null: it has no more. `bytes` is a multiple of 64.
  virtual std::byte* Take(size_t bytes) = 0;
  // False: the block was not taken here, and nothing is done. Else its memory is free.
  virtual bool GiveBack(std::byte* block, size_t bytes) = 0;
};

}  // namespace strata

#endif  // STRATA_COMMON_BLOCK_SOURCE_H_

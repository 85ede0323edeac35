#ifndef STRATA_COMMON_BUFFER_POOL_H_
#define STRATA_COMMON_BUFFER_POOL_H_

#include <cstddef>
#include <memory>

#include "common/bytes.h"

namespace strata {

// Provides a BufferPool's memory instead of the allocator.
//
// Threads: all calls from any thread.
class BlockSource {
 public:
  virtual ~BlockSource() = default;

  // Returns 64-byte aligned memory; null: none left. `bytes` is a multiple of 64.
  virtual std::byte* Take(size_t bytes) = 0;
  // Frees a block. False: the block is not from here, and nothing happens.
  virtual bool GiveBack(std::byte* block, size_t bytes) = 0;
};

// Returns memory for `size` bytes, aligned for all types, vector instructions included, or to a
// larger `alignment`, a power of two, to which `size` is rounded up. Null: out of memory.
std::shared_ptr<std::byte> AlignedMemory(size_t size, size_t alignment = 64);

// Memory for buffers of few different sizes that come and go with every step (weights, sums, send
// buffers): a freed buffer is kept and handed out again, so that a step causes no page faults.
// Buffers are 64-byte aligned with undefined content, and may outlive the pool.
//
// Threads: all calls, and the release of buffers, from any thread.
class BufferPool {
 public:
  static constexpr size_t kRetainedBytesMax = size_t{256} << 20;

  // Free buffers beyond `retained_bytes_max` are returned to `source`, or to the allocator. If
  // `source` is null or exhausted, the allocator is used.
  explicit BufferPool(size_t retained_bytes_max = kRetainedBytesMax,
                      std::shared_ptr<BlockSource> source = nullptr);

  // Returns a buffer of at least `bytes` (0 is allowed). Out of memory ends the process, as in the
  // standard library's allocators.
  std::shared_ptr<std::byte> AllocateBytes(size_t bytes);
  std::shared_ptr<float> AllocateFloats(size_t count);

  // While the returned object is alive, the pool may keep `bytes` more free memory, for a user that
  // needs many buffers at times: otherwise the kernel would clear their pages again each time. The
  // object may outlive the pool.
  [[nodiscard]] std::shared_ptr<void> RetainMore(size_t bytes);

  // Free bytes in the pool.
  size_t retained_bytes() const;
  // Free bytes in the pool and bytes in use.
  size_t allocated_bytes() const;

 private:
  struct State;
  // Shared with the deleters of buffers that are out.
  std::shared_ptr<State> state_;
};

// An immutable view of `count` floats that keeps `buffer` alive.
inline Bytes AsBytes(const std::shared_ptr<const float>& buffer, size_t count) {
  return Bytes(buffer, reinterpret_cast<const std::byte*>(buffer.get()), count * sizeof(float));
}

// Makes malloc keep large blocks instead of returning them to the kernel: received messages are
// malloc'ed, and page faults at every step cost more than the network. Call it once in main of
// processes on the data path.
void TuneAllocator();

}  // namespace strata

#endif  // STRATA_COMMON_BUFFER_POOL_H_

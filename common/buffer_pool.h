#ifndef STRATA_COMMON_BUFFER_POOL_H_
#define STRATA_COMMON_BUFFER_POOL_H_

#include <cstddef>
#include <memory>

#include "common/block_source.h"
#include "common/bytes.h"

namespace strata {

// Memory for buffers of few different sizes that come and go with every step (weights, sums, send
// buffers): a freed buffer is kept and handed out again, so that a step causes no page faults.
// Buffers are 64-byte aligned with undefined content, and may outlive the pool.
//
// Threads: all calls, and the release of buffers, from any thread.
class BufferPool {
 public:
  static constexpr size_t kRetainedBytesMax = size_t{256} << 20;

  // Free buffers beyond `retained_bytes_max` go back to where they came from: `source`, or the
  // allocator where that is null or has no more.
  explicit BufferPool(size_t retained_bytes_max = kRetainedBytesMax,
                      std::shared_ptr<BlockSource> source = nullptr);

  // A buffer of at least `bytes` (0 is allowed). Out of memory ends the process, as with malloc
  // behind the standard library.
  std::shared_ptr<std::byte> AllocateBytes(size_t bytes);
  std::shared_ptr<float> AllocateFloats(size_t count);

  // While what it returns is alive, as many more bytes may lie free in the pool: what one that
  // needs many buffers at times would otherwise have the kernel clear anew each time. May outlive
  // the pool.
  [[nodiscard]] std::shared_ptr<void> RetainMore(size_t bytes);

  // Bytes that lie free in the pool.
  size_t retained_bytes() const;
  // Those, and what is out.
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
// malloc'ed, and faulting their pages in anew at every step costs more than the network. Call it
// once in main of processes on the data path.
void TuneAllocator();

}  // namespace strata

#endif  // STRATA_COMMON_BUFFER_POOL_H_

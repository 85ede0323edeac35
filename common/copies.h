#ifndef STRATA_COMMON_COPIES_H_
#define STRATA_COMMON_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/buffer_pool.h"

namespace strata {

// Why bytes of a chunk are copied between ranks and servers; docs/wire.md lists all reasons. Code
// that reads values and writes other values (sums, updates, codecs, seals) does not count as a
// copy.
enum class CopyReason {
  kFirstWeights,  // arena to send buffer: answers land in the arena while it may be sent again
  kIntoArena,     // answer to the node's weight arena, which its ranks read as one vector
  kRepeatedPush,  // of a push whose answer has not come: the lent bytes may change
  kUnaligned,     // a payload that ZeroMQ received at an address unsuitable for fp32
  kJoined,        // all-reduce: parts of a chunk that came separately and leave as one message
  kSeed,          // first weights to the place of their updates, in a shard or on a node
  kSparse,        // payload out of a buffer for the largest one
  kWholeCopy,     // of a node's copy, for a repeated request: the next answer changes it
  kRound,         // answer to the weights from which a node's own steps continue
  kCut,     // optimizer state and nodes' copies to an image, because the next update changes them
  kSocket,  // to a TCP socket: once by the kernel on each side
};
inline constexpr int kCopyReasons = 11;

// memcpy, counted. REQUIRES: the ranges do not overlap.
void CopyBytes(CopyReason reason, void* to, const void* from, size_t bytes);
// Counts bytes that other code copies.
void CountCopy(CopyReason reason, size_t bytes);

// Bytes that this process has copied so far. Threads: any, like all of the above.
uint64_t CopiedBytes(CopyReason reason);

// Returns a copy of `count` floats in memory of the pool, counted under its reason.
inline std::shared_ptr<float> CopyFloats(CopyReason reason, BufferPool& pool, const float* from,
                                         size_t count) {
  std::shared_ptr<float> copy = pool.AllocateFloats(count);
  CopyBytes(reason, copy.get(), from, count * sizeof(float));
  return copy;
}

}  // namespace strata

#endif  // STRATA_COMMON_COPIES_H_

#ifndef STRATA_WORKER_AGGREGATOR_DEVICE_COPY_IN_PARTS_H_
#define STRATA_WORKER_AGGREGATOR_DEVICE_COPY_IN_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/copies.h"
#include "common/fork_join.h"

namespace strata::worker {

// Bytes that one thread copies at a time.
inline constexpr size_t kCopiedPartBytes = size_t{128} << 10;

// Returns how many helper threads are useful on a node with this many cores; each rank and the
// caller keep one core busy. With more threads memory is the bottleneck.
inline uint32_t CopyHelpersFor(uint32_t local_ranks, uint32_t cores) {
  return std::min(3u, cores > local_ranks + 1 ? cores - local_ranks - 1 : 0u);
}

// CopyBytes, by this thread and `helpers` together; null: by this thread alone.
inline void CopyInParts(CopyReason reason, std::byte* to, const std::byte* from, size_t bytes,
                        ForkJoin* helpers) {
  const auto parts = static_cast<uint32_t>((bytes + kCopiedPartBytes - 1) / kCopiedPartBytes);
  if (helpers == nullptr || parts < 2) return CopyBytes(reason, to, from, bytes);
  helpers->Run(parts, helpers->helpers(), [&](uint32_t part) {
    const size_t at = part * kCopiedPartBytes;
    CopyBytes(reason, to + at, from + at, std::min(kCopiedPartBytes, bytes - at));
  });
}

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_DEVICE_COPY_IN_PARTS_H_

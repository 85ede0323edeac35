#ifndef STRATA_COMMON_TRANSPORT_REGION_MEMORY_H_
#define STRATA_COMMON_TRANSPORT_REGION_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/buffer_pool.h"
#include "common/transport/shared_segment.h"

namespace strata::transport {

// Memory whose content an endpoint may hand to peers of its host by reference: a segment that
// buffer pools take their blocks from, and segments that others have made.
//
// Threads: any.
class RegionMemory final : public BlockSource {
 public:
  // The most segments, the pools' included.
  static constexpr size_t kSegmentsMax = 4;

  // Makes room for blocks of `bytes_max` together; what is not used takes no memory.
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<RegionMemory>> Create(size_t bytes_max);
  // Room for as much as the machine has memory.
  static absl::StatusOr<std::shared_ptr<RegionMemory>> Create();
  // Use Create.
  explicit RegionMemory(std::shared_ptr<SharedSegment> blocks);

  std::byte* Take(size_t bytes) override;
  bool GiveBack(std::byte* block, size_t bytes) override;

  // Lets this segment's content be referred to, too. Before any connection is made. REQUIRES: fewer
  // than kSegmentsMax segments.
  void Add(std::shared_ptr<SharedSegment> segment);
  // The blocks' segment first.
  const std::vector<std::shared_ptr<SharedSegment>>& segments() const { return segments_; }

  struct SegmentOffset {
    uint32_t segment = 0;
    uint64_t offset = 0;
  };
  // Returns where bytes lie; nullopt: not, or not wholly, in a segment.
  std::optional<SegmentOffset> Find(const std::byte* data, size_t size) const;

 private:
  std::vector<std::shared_ptr<SharedSegment>> segments_;
  absl::Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // from the segment's beginning
  // Given back, by size; their pages hold no memory.
  absl::flat_hash_map<size_t, std::vector<std::byte*>> hollow_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_MEMORY_H_

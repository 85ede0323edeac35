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

// Memory whose content an endpoint may pass to peers on its host by reference: a segment from which
// buffer pools take their blocks, and segments made elsewhere.
//
// Threads: any.
class RegionMemory final : public BlockSource {
 public:
  // The maximum number of segments, including the pools'.
  static constexpr size_t kSegmentsMax = 4;

  // Makes room for blocks of `bytes_max` in total; unused parts take no memory. Errors:
  // ResourceExhausted.
  static absl::StatusOr<std::shared_ptr<RegionMemory>> Create(size_t bytes_max);
  // Makes room for as much memory as the machine has.
  static absl::StatusOr<std::shared_ptr<RegionMemory>> Create();
  // Use Create.
  explicit RegionMemory(std::shared_ptr<SharedSegment> blocks);

  std::byte* Take(size_t bytes) override;
  bool GiveBack(std::byte* block, size_t bytes) override;

  // Allows references into this segment, too. Before any connection is made. REQUIRES: fewer than
  // kSegmentsMax segments.
  void Add(std::shared_ptr<SharedSegment> segment);
  // The blocks' segment first.
  const std::vector<std::shared_ptr<SharedSegment>>& segments() const { return segments_; }

  struct SegmentOffset {
    uint32_t segment = 0;
    uint64_t offset = 0;
  };
  // Returns the location of bytes; nullopt: they are not, or not wholly, in one segment.
  std::optional<SegmentOffset> Find(const std::byte* data, size_t size) const;

 private:
  std::vector<std::shared_ptr<SharedSegment>> segments_;
  absl::Mutex mutex_;
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // from the segment's beginning
  // Returned blocks, by size; their pages hold no memory.
  absl::flat_hash_map<size_t, std::vector<std::byte*>> hollow_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_MEMORY_H_

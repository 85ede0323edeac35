#ifndef STRATA_COMMON_JOB_ARENA_H_
#define STRATA_COMMON_JOB_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata {

// Returns a text for everything that a program registered about a tensor except its place: equal
// only for equal registrations.
inline std::string TensorText(const proto::Segment& segment) {
  return absl::StrFormat("\"%s\" [%s] (lr x%g, decay x%g%s)", segment.name(),
                         absl::StrJoin(segment.shape(), ", "), segment.lr_multiplier(),
                         segment.decay_multiplier(), segment.averaged() ? ", averaged" : "");
}

// Returns the first difference between the tables of two layouts: "table \"items\": dim 16 and 8";
// empty: there is none.
std::string TableDifference(const proto::Layout& a, const proto::Layout& b);

// A range of one chunk that is updated in one way.
struct OptimizerRun {
  size_t offset = 0;  // elements from the chunk's start
  size_t count = 0;
  float lr_multiplier = 1.0f;
  float decay_multiplier = 1.0f;
  bool averaged = false;  // see Segment in proto/control.proto
};

// The division of a job's arena into chunks. Immutable.
class ChunkMap {
 public:
  // REQUIRES: chunk_elements >= 1. No elements make no chunks.
  ChunkMap(uint64_t elements, uint32_t chunk_elements);

  uint64_t elements() const { return elements_; }
  uint32_t chunk_elements() const { return chunk_elements_; }
  uint32_t chunks() const;
  uint64_t OffsetOf(ChunkId chunk) const;
  uint32_t ElementsOf(ChunkId chunk) const;  // chunk_elements, fewer for the last one
  ChunkId ChunkAt(uint64_t element) const;   // REQUIRES: element < elements

 private:
  uint64_t elements_;
  uint32_t chunk_elements_;
};

// The default chunk of a job of `elements` fp32 weights over `shards` shards, in elements:
// clamp(M / (128 * shards), 64 KiB, 1 MiB), one chunk when M <= 512 KiB.
uint32_t DefaultChunkElements(uint64_t elements, uint32_t shards);

// Errors: InvalidArgument naming the segment: gap or overlap, size not equal to the product of the
// shape (or overflow), no elements, a multiplier that is negative or not finite.
absl::Status ValidateLayout(const proto::Layout& layout);

// Returns the runs of one chunk of a valid layout, in order, covering it exactly. REQUIRES: the map
// has the chunk.
std::vector<OptimizerRun> OptimizerRuns(const proto::Layout& layout, const ChunkMap& map,
                                        ChunkId chunk);

// Returns the runs of `count` elements from `begin` on, in a valid layout that contains them.
std::vector<OptimizerRun> OptimizerRuns(const proto::Layout& layout, uint64_t begin,
                                        uint64_t count);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_ARENA_H_

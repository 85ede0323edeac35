#include "common/job/arena.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/require.h"

namespace strata {
namespace {

constexpr uint64_t kBytesPerElement = sizeof(float);
constexpr uint64_t kOneChunkBytesMax = 512 << 10;
constexpr uint64_t kChunkBytesMin = 64 << 10;
constexpr uint64_t kChunkBytesMax = 1 << 20;
// If links are the bottleneck, a step takes about 1 + shards * chunk / M times the minimum.
constexpr uint64_t kChunksPerShard = 128;
// Chunks start on a cache line.
constexpr uint64_t kChunkAlignmentBytes = 64;

bool IsMultiplier(float value) { return std::isfinite(value) && value >= 0; }

// Computes the product of the shape's sizes; false if it is 0 or overflows.
bool SizeOf(const proto::Segment& segment, uint64_t* size) {
  *size = 1;
  for (uint64_t extent : segment.shape()) {
    if (extent == 0 || __builtin_mul_overflow(*size, extent, size)) return false;
  }
  return true;
}

}  // namespace

ChunkMap::ChunkMap(uint64_t elements, uint32_t chunk_elements)
    : elements_(elements), chunk_elements_(chunk_elements) {
  STRATA_REQUIRE(chunk_elements >= 1);
}

uint32_t ChunkMap::chunks() const {
  return static_cast<uint32_t>((elements_ + chunk_elements_ - 1) / chunk_elements_);
}

uint64_t ChunkMap::OffsetOf(ChunkId chunk) const {
  return static_cast<uint64_t>(chunk.value()) * chunk_elements_;
}

uint32_t ChunkMap::ElementsOf(ChunkId chunk) const {
  return static_cast<uint32_t>(std::min<uint64_t>(chunk_elements_, elements_ - OffsetOf(chunk)));
}

ChunkId ChunkMap::ChunkAt(uint64_t element) const {
  STRATA_REQUIRE(element < elements_);
  return ChunkId(static_cast<uint32_t>(element / chunk_elements_));
}

uint32_t DefaultChunkElements(uint64_t elements, uint32_t shards) {
  const uint64_t bytes = elements * kBytesPerElement;
  if (bytes <= kOneChunkBytesMax) return static_cast<uint32_t>(elements);
  const uint64_t per_chunk = bytes / (kChunksPerShard * std::max<uint64_t>(shards, 1));
  const uint64_t chunk_bytes = std::clamp(per_chunk, kChunkBytesMin, kChunkBytesMax) /
                               kChunkAlignmentBytes * kChunkAlignmentBytes;
  return static_cast<uint32_t>(chunk_bytes / kBytesPerElement);
}

bool IsAlike(const OptimizerRun& a, const OptimizerRun& b) {
  return a.lr_multiplier == b.lr_multiplier && a.decay_multiplier == b.decay_multiplier &&
         a.averaged == b.averaged;
}

std::string TableDifference(const proto::Layout& a, const proto::Layout& b) {
  const int both = std::min(a.tables_size(), b.tables_size());
  for (int i = 0; i < both; ++i) {
    const proto::Table& one = a.tables(i);
    const proto::Table& two = b.tables(i);
    if (one.name() != two.name()) {
      return absl::StrFormat("table %d is \"%s\" and \"%s\"", i, one.name(), two.name());
    }
    const auto differ = [&one](absl::string_view field, uint64_t left, uint64_t right) {
      return absl::StrFormat("table \"%s\": %s %d and %d", one.name(), field, left, right);
    };
    if (one.columns() != two.columns()) return differ("dim", one.columns(), two.columns());
    if (one.capacity() != two.capacity()) {
      return differ("capacity", one.capacity(), two.capacity());
    }
    if (one.seed() != two.seed()) return differ("seed", one.seed(), two.seed());
    if (one.SerializeAsString() != two.SerializeAsString()) {
      return absl::StrFormat("table \"%s\": other initial values or another optimizer", one.name());
    }
  }
  if (a.tables_size() == b.tables_size()) return "";
  const proto::Layout& longer = a.tables_size() > both ? a : b;
  return absl::StrFormat("%d and %d tables: one has no \"%s\"", a.tables_size(), b.tables_size(),
                         longer.tables(both).name());
}

absl::Status ValidateLayout(const proto::Layout& layout) {
  if (layout.segments().empty()) return absl::InvalidArgumentError("layout: no tensors");
  uint64_t end = 0;
  for (const proto::Segment& segment : layout.segments()) {
    uint64_t size = 0;
    if (!SizeOf(segment, &size)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor \"%s\": its shape has no elements or too many", segment.name()));
    }
    if (segment.offset() != end) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor \"%s\": starts at element %d, expected %d (%s)", segment.name(),
                          segment.offset(), end, segment.offset() < end ? "overlap" : "gap"));
    }
    if (!IsMultiplier(segment.lr_multiplier()) || !IsMultiplier(segment.decay_multiplier())) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "tensor \"%s\": lr_multiplier %g and decay_multiplier %g must be finite and >= 0",
          segment.name(), segment.lr_multiplier(), segment.decay_multiplier()));
    }
    if (__builtin_add_overflow(end, size, &end)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor \"%s\": too many elements in all", segment.name()));
    }
  }
  if (end != layout.elements()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor \"%s\": the last one ends at element %d, the layout at %d",
                        layout.segments().rbegin()->name(), end, layout.elements()));
  }
  return absl::OkStatus();
}

std::vector<OptimizerRun> OptimizerRuns(const proto::Layout& layout, const ChunkMap& map,
                                        ChunkId chunk) {
  STRATA_REQUIRE(chunk.value() < map.chunks());
  return OptimizerRuns(layout, map.OffsetOf(chunk), map.ElementsOf(chunk));
}

std::vector<OptimizerRun> OptimizerRuns(const proto::Layout& layout, uint64_t begin,
                                        uint64_t count) {
  const uint64_t end = begin + count;
  STRATA_REQUIRE(begin <= end && end <= layout.elements() && !layout.segments().empty());
  const auto& segments = layout.segments();
  // The last segment that starts at or before the chunk.
  auto segment = std::upper_bound(
      segments.begin(), segments.end(), begin,
      [](uint64_t element, const proto::Segment& s) { return element < s.offset(); });
  --segment;
  std::vector<OptimizerRun> runs;
  uint64_t at = begin;
  while (at < end) {
    const auto next = segment + 1;
    const uint64_t segment_end = next == segments.end() ? layout.elements() : next->offset();
    const uint64_t stop = std::min(end, segment_end);
    const OptimizerRun run = {.offset = at - begin,
                              .count = stop - at,
                              .lr_multiplier = segment->lr_multiplier(),
                              .decay_multiplier = segment->decay_multiplier(),
                              .averaged = segment->averaged()};
    if (!runs.empty() && IsAlike(runs.back(), run)) {
      runs.back().count += run.count;
    } else {
      runs.push_back(run);
    }
    at = stop;
    segment = next;
  }
  return runs;
}

}  // namespace strata

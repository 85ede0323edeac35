#include "worker/exchange/all_reduce/slice_checkpoints.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/image/join_images.h"
#include "common/job/consistency.h"

namespace strata::worker {
namespace {

std::vector<uint64_t> BeginsOf(const std::vector<ChunkReduction>& chunks) {
  std::vector<uint64_t> begins;
  for (const ChunkReduction& chunk : chunks) {
    if (chunk.own_begin()) begins.push_back(*chunk.own_begin());
  }
  return begins;
}

}  // namespace

SliceCheckpoints::SliceCheckpoints(const proto::JobRecord& record,
                                   const std::vector<ChunkReduction>& chunks)
    : chunks_(chunks),
      clocks_per_cut_(ClocksPerCheckpoint(record.job())),
      first_clock_(record.resume().clock()),
      cuts_(BeginsOf(chunks)) {
  size_t slices = 0;
  for (const ChunkReduction& chunk : chunks_) {
    index_.push_back(chunk.own_begin() ? std::optional(slices++) : std::nullopt);
  }
  has_slices_ = slices > 0;
}

void SliceCheckpoints::CutIfDue(ChunkId id) {
  const ChunkReduction& chunk = chunks_[id.value()];
  const uint64_t clock = chunk.clock();
  if (clocks_per_cut_ == 0 || clock <= first_clock_ || clock % clocks_per_cut_ != 0) return;
  if (index_[id.value()]) cuts_.Add(*index_[id.value()], clock, *chunk.Image());
  if (!has_slices_ && id == ChunkId(0)) empty_.push_back({.clock = clock});
}

uint64_t SliceCheckpoints::CutBytes(OptimizerKind kind) const {
  if (clocks_per_cut_ == 0) return 0;
  uint64_t elements = 0;
  for (const ChunkReduction& chunk : chunks_) elements += chunk.own_elements();
  return elements * sizeof(float) * (1 + StateVectors(kind));
}

std::vector<Cut<ChunkImage>> SliceCheckpoints::Take() {
  return has_slices_ ? cuts_.Take() : std::exchange(empty_, {});
}

absl::StatusOr<Bytes> GoOnFrom(absl::Span<const ChunkImage> slices, uint64_t clock,
                               const ChunkMap& map, ChunkId id, ChunkReduction* chunk) {
  std::optional<ChunkImage> own;
  if (chunk->own_begin()) {
    absl::StatusOr<ChunkImage> joined =
        JoinImages(slices, *chunk->own_begin(), chunk->own_elements());
    if (!joined.ok()) return joined.status();
    own = *std::move(joined);
  }
  if (absl::Status status = chunk->Restore(own, clock); !status.ok()) return status;
  absl::StatusOr<ChunkImage> all = JoinImages(slices, map.OffsetOf(id), map.ElementsOf(id));
  if (!all.ok()) return all.status();
  // Where weights travel encoded, nodes have what has arrived of them.
  return all->copy.empty() ? all->weights.weights : all->copy;
}

}  // namespace strata::worker

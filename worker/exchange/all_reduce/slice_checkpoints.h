#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_SLICE_CHECKPOINTS_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_SLICE_CHECKPOINTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/image/chunk_image.h"
#include "common/image/cut_collector.h"
#include "common/job/arena.h"
#include "common/job/optimizer.h"
#include "worker/exchange/all_reduce/chunk_reduction.h"

namespace strata::worker {

// What one node of an all-reduce writes of checkpoints: the slices that it updates, with their
// optimizer state. A chunk is cut before the first clock after the checkpoint's begins, and after
// the job's last one.
//
// Threads: one.
class SliceCheckpoints {
 public:
  // `chunks` outlive it. Does nothing for a job without checkpoints.
  SliceCheckpoints(const proto::JobRecord& record, const std::vector<ChunkReduction>& chunks);

  // The chunk has begun nothing of its clock. Cuts it, where it has come to a checkpoint's clock.
  void CutIfDue(ChunkId chunk);

  // What weights and optimizer state of one cut take. 0: there are no cuts.
  uint64_t CutBytes(OptimizerKind kind) const;
  std::vector<Cut<ChunkImage>> Take();
  void LetGoOf(uint64_t clock) { cuts_.LetGo(clock); }
  uint64_t bytes() const { return cuts_.bytes(); }

 private:
  const std::vector<ChunkReduction>& chunks_;
  const uint64_t clocks_per_cut_, first_clock_;
  std::vector<std::optional<size_t>> index_;  // by chunk: of the slices; none: the node has none
  CutCollector<ChunkImage> cuts_;
  bool has_slices_ = false;
  std::vector<Cut<ChunkImage>> empty_;  // of a node that updates nothing: it says so
};

// Has a chunk go on from the slices of all nodes, and returns the weights that nodes have of it.
// Errors: InvalidArgument, DataLoss: the slices are not those of the chunk, or not of the clock.
absl::StatusOr<Bytes> GoOnFrom(absl::Span<const ChunkImage> slices, uint64_t clock,
                               const ChunkMap& map, ChunkId id, ChunkReduction* chunk);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_SLICE_CHECKPOINTS_H_

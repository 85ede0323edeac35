#ifndef STRATA_WORKER_AGGREGATOR_CORE_AGGREGATOR_CORE_H_
#define STRATA_WORKER_AGGREGATOR_CORE_AGGREGATOR_CORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Checks that all ranks of a node registered the same tensors, offer the same weights and state the
// same facts. Errors: InvalidArgument naming two ranks and the first difference.
absl::Status CheckSameLayout(RankId first, const proto::Layout& a, RankId other,
                             const proto::Layout& b);

// The state of each chunk within a clock (published by every rank → submitted → summed → weights
// landed), and of ranks that have left. A pure state machine.
class AggregatorCore {
 public:
  AggregatorCore(RankId first_rank, uint32_t local_ranks, uint32_t chunks);

  // The job resumes at step `clock`, as if earlier steps had been made. REQUIRES: no step has been
  // made.
  void BeginAt(uint64_t clock);

  uint32_t chunks() const { return static_cast<uint32_t>(chunks_.size()); }
  // Returns whether the chunk waits for ranks to publish it.
  bool collecting(ChunkId chunk) const { return !chunks_[chunk.value()].submitted; }

  // The clock whose gradients the chunk waits for, or that is submitted.
  uint64_t clock(ChunkId chunk) const { return chunks_[chunk.value()].clock; }

  // `ready[r]`: number of steps in which local rank r has published the chunk. Returns true if all
  // ranks have published the due clock, so that the chunk may be submitted. Errors: InvalidArgument
  // (a rank continues after another has left), naming both.
  absl::StatusOr<bool> OnReady(ChunkId chunk, absl::Span<const uint64_t> ready);

  // `published[r]`: chunks, over all steps, whose gradients local rank r has computed; if ranks sum
  // by themselves, more than in OnReady. Errors: as for OnReady.
  absl::Status OnPublished(absl::Span<const uint64_t> published) const;
  // `rates[r]`: local rank r's learning rate for the step, 0 if the program gives none; once per
  // step. Errors: InvalidArgument naming two ranks that differ.
  absl::Status OnRates(uint64_t step, absl::Span<const float> rates) const;

  // The chunk's due clock has been summed. `complete[r]`: number of steps of which local rank r has
  // published every chunk. Returns the value for consumed[chunk].
  uint64_t OnSummed(ChunkId chunk, absl::Span<const uint64_t> complete);
  // The answer to `clock` is in the arena. Returns the value for landed[chunk].
  uint64_t OnLanded(ChunkId chunk, uint64_t clock);

  // A rank makes `steps` steps in total. Errors: InvalidArgument (ranks with different numbers,
  // naming both).
  absl::Status OnLeave(uint32_t local_rank, uint64_t steps);
  // The number of steps once all ranks have left.
  std::optional<uint64_t> steps() const;

  // Chunks that are submitted and whose next weights have not landed.
  uint32_t under_way() const { return under_way_; }
  uint64_t pushes_during_backward() const { return pushes_during_backward_; }

 private:
  struct Chunk {
    uint64_t clock = 0;
    bool submitted = false;
  };
  std::string Name(uint32_t local_rank) const;
  absl::Status GoesOn(uint32_t local_rank, uint32_t gone) const;

  const RankId first_rank_;
  std::vector<Chunk> chunks_;
  std::vector<std::optional<uint64_t>> left_;  // by local rank
  uint32_t under_way_ = 0;
  uint64_t pushes_during_backward_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_AGGREGATOR_CORE_H_

#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_NODE_STEP_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_NODE_STEP_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/link_core.h"

namespace strata::worker {

// The state of the current step that a node keeps while rings come and go: its own sums, so that it
// can give them to the next ring, too, and the means received, until those of all chunks are there
// and the step is made. The means of the previous step are kept until the first of this one comes:
// then every node has made that step, because each has given its sum for this one.
//
// A pure state machine. Threads: one.
class NodeStep {
 public:
  explicit NodeStep(const ChunkMap& map) : map_(map), chunks_(map.chunks()) {}

  uint32_t chunks() const { return static_cast<uint32_t>(chunks_.size()); }
  // Number of steps made, which is the number of the current one.
  uint64_t clock() const { return clock_; }

  // The node has the chunk's sum. Once per step.
  void Publish(ChunkId chunk);
  // Returns a chunk whose sum the node has and the ring does not know of, and marks it as
  // announced.
  std::optional<ChunkId> NextToAnnounce();
  // The ring wants the sum, once, of an announced chunk. Returns whether the node must be asked for
  // it now: it is not kept, and has not been asked for.
  bool Want(ChunkId chunk);
  // Returns whether the current ring wants it.
  bool is_wanted(ChunkId chunk) const { return chunks_[chunk.value()].is_wanted; }
  void Keep(ChunkId chunk, ExchangeNode::Sum sum);
  // Null: it is not kept.
  const ExchangeNode::Sum* sum(ChunkId chunk) const;

  // Takes part of the chunk's mean, from `first_element` on. `lands`: that completes it. Returns
  // whether all means of the step are there.
  bool TakeMean(ChunkId chunk, uint32_t first_element, Bytes mean, bool lands);
  // Completes the step and returns its means, as they came. REQUIRES: all are there.
  std::vector<NodeAction> Make();
  // The ring is gone: the current step's received means are worthless, and the next ring must be
  // told of all sums that the node has.
  void Forget();

  // Returns whether the means of the previous step are kept.
  bool has_last() const { return has_last_; }
  // Returns the chunk's whole mean of that step. REQUIRES: has_last().
  Bytes LastMean(ChunkId chunk, BufferPool* pool);

 private:
  struct Piece {
    uint32_t first_element = 0;
    Bytes mean;
  };
  struct Chunk {
    bool is_published = false, is_wanted = false, is_asked = false, has_landed = false;
    std::optional<ExchangeNode::Sum> sum;
    std::vector<Piece> mean, last_mean;
  };

  const ChunkMap map_;
  std::vector<Chunk> chunks_;
  std::deque<ChunkId> to_tell_;
  uint64_t clock_ = 0;
  size_t landed_ = 0;
  bool has_last_ = false;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_NODE_STEP_H_

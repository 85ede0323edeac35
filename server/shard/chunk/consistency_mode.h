#ifndef STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODE_H_
#define STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "kernels/kernels.h"
#include "optimizer/weight_state.h"
#include "server/shard/chunk/chunk_cuts.h"
#include "server/shard/chunk/chunk_nodes.h"
#include "server/shard/chunk/clock_sums.h"
#include "server/shard/chunk/given_weights.h"
#include "server/shard/chunk/mode_memory.h"
#include "server/shard/chunk/push.h"
#include "server/shard/copy/chunk_copy.h"
#include "server/shard/sum/accumulator.h"

namespace strata::server {

// The parts of one chunk that a mode works on.
struct ChunkParts {
  const kernels::Kernels& kernels;
  BufferPool& pool;
  kernels::WeightState& weights;
  ChunkNodes& nodes;
  ChunkCuts& cuts;
  ClockSums& sums;
};

// How one chunk's pushes are applied, and when they are answered. ChunkState calls it in this
// order: it finds that a push is new and right, asks Check, counts the push in ChunkNodes, calls
// Take, and then asks of each node that waits whether it may be answered. A mode that adds the
// pushes of a clock tells ChunkCuts of each clock that it has applied,
// and ClockSums where all nodes are answered with the same versions.
//
// Threads: one.
class ChunkMode {
 public:
  virtual ~ChunkMode() = default;

  // The chunk has its first weights, or those of an image.
  virtual void OnSeed() {}
  // What the mode knows of past gradients, as images keep it; empty: nothing. It is copied.
  virtual Bytes MeanSquare() const { return Bytes(); }
  // Goes on from that of an image. REQUIRES: after OnSeed, as long as the chunk, or empty.
  virtual void RestoreMeanSquare(const Bytes& mean_square) {}
  // Adds all that the mode knows of this chunk, see ChunkCopy.
  virtual void AddTo(ChunkCopy* copy) {}
  // Goes on from what another copy knows. REQUIRES: after OnSeed, with the nodes as they are there.
  virtual void Restore(ChunkCopyReader* reader) {}
  // Returns the error for a push that does not fit what its node was given.
  virtual PushResult Check(const Push& push) const { return {}; }
  // Takes a push in, now or when others are there. Appends ERRORs to pushes of other nodes that
  // turn out not to be finite, and returns that of this push.
  virtual PushResult Take(const Push& push, Addend sum, std::vector<DueAnswer>* due) = 0;
  // A node has retired, as ChunkNodes says.
  virtual void OnRetire(absl::Time now, std::vector<DueAnswer>* due) {}

  // Applies all of a clock as another copy of the chunk has done, which has added it. REQUIRES: the
  // mode answers all nodes alike, and no push waits here.
  virtual void Follow(const ClockSum& clock) {}

  // Whether the node's last push may be answered; `gate` is ChunkNodes::Gate().
  virtual bool MayAnswer(size_t node, uint64_t gate) const = 0;
  // The staleness that stands in the answer to it.
  virtual uint32_t StalenessOf(size_t node, uint64_t gate) const = 0;
  // The node is answered with the newest weights.
  virtual void OnAnswered(size_t node) {}
  // Returns what a node that asks again gets: the weights of its last answer, because it computes
  // with no others. Null: the newest.
  virtual const WeightVersion* GivenTo(size_t node) const { return nullptr; }
  // A new process repeats its node's last push. Returns true if that kept the process before
  // waiting, and no longer does so.
  virtual bool StopWaiting(size_t node) { return false; }

  // When OnTime is due; InfiniteFuture: never.
  virtual absl::Time deadline() const { return absl::InfiniteFuture(); }
  virtual void OnTime(absl::Time now) {}

  // Gradient buffers held for incomplete clocks.
  virtual size_t held() const { return 0; }
  // All that the mode holds for this chunk.
  virtual size_t bytes() const { return 0; }
};

// A mode of consistency with a job's settings; it makes the ChunkMode of each chunk.
//
// Threads: one.
class ConsistencyMode {
 public:
  virtual ~ConsistencyMode() = default;

  // Whether all nodes are answered with the same versions: those after each clock.
  virtual bool answers_alike() const { return false; }
  // Whether each push is applied when it comes, and not with those of other nodes.
  virtual bool applies_on_arrival() const { return false; }
  // Adds the memory for weights that are kept for single nodes, and what comes with them.
  virtual void AddNodeVersions(const ShardSize& size, MemoryFormula* need) const {}
  // Adds the memory for pushes that wait for others.
  virtual void AddHeldSums(const ShardSize& size, MemoryFormula* need) const {}
  // All of `chunk` outlives the result.
  virtual std::unique_ptr<ChunkMode> CreateForChunk(const ChunkParts& chunk) const = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CONSISTENCY_MODE_H_

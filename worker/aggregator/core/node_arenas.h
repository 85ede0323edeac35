#ifndef STRATA_WORKER_AGGREGATOR_CORE_NODE_ARENAS_H_
#define STRATA_WORKER_AGGREGATOR_CORE_NODE_ARENAS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "common/buffer_pool.h"
#include "common/fork_join.h"
#include "common/job/arena.h"
#include "kernels/kernels.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/contract/node_memory.h"

namespace strata::worker {

// Returns how many helper threads are useful for summing on a node with this many cores.
uint32_t HelpersFor(uint32_t local_ranks, uint32_t cores);

struct NodeArenasOptions {
  // Provides send buffers; null: the allocator does.
  std::shared_ptr<BlockSource> source;
  // Lends the gradients of a node's only rank in place, without a copy. Requires that nobody reads
  // them once the chunk's next weights are taken: the rank may write them from then on.
  bool lends_gradients = false;
  // Threads that sum on cores where no rank runs; null: none. They outlive the arenas.
  ForkJoin* helpers = nullptr;
  uint32_t cores = 1;  // shared by ranks, caller and helpers
};

// The node's arenas as the exchange sees them: sums gradients over the ranks directly into a send
// buffer, lands weights in place, and wakes ranks that sleep for them.
//
// Weights may land in place in every mode: a chunk's answer comes between its publication by all
// local ranks, which do not read it again in their step, and the next step's wait for it.
//
// Threads: one.
class NodeArenas final : public Arenas {
 public:
  // The arguments outlive this; `core` and `memory` hold the same number of chunks as `map`.
  NodeArenas(NodeMemory* memory, AggregatorCore* core, const ChunkMap& map,
             const kernels::Kernels& kernels, const NodeArenasOptions& options = {});

  Bytes FirstWeights(ChunkId chunk) override;
  Sum TakeSum(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) override;
  absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                            const numerics::CheckedPayload& delta) override;
  absl::Status Landed(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) override;

  // Writes the sums of `clock` as the chunks' next weights, if no other node adds to them; replaces
  // TakeSum, TakeWeights and Landed. The chunks are consecutive.
  void SumIntoWeights(ChunkId first, uint32_t chunks, uint64_t clock);
  // The same with the mean over the step's samples, with the bits of OptimizerKind::kMean. Errors:
  // DivergedError: a gradient or the sum is not finite.
  absl::Status MeanIntoWeights(ChunkId chunk, uint64_t clock);

  // Sums are made when they are taken, and everything else is synchronous.
  absl::StatusOr<bool> BeginSum(ChunkId chunk, uint64_t clock) override { return true; }
  absl::Status Poll(std::vector<ChunkId>* summed) override { return absl::OkStatus(); }
  bool busy() const override { return false; }
  void LandFirstWeights() override;
  absl::Status Describe(uint32_t local_rank, proto::Started* started) override {
    return absl::OkStatus();
  }
  size_t buffer_bytes() const override { return pool_.allocated_bytes(); }

 private:
  // Collects the chunk's gradients, its contributors, and the facts of the step.
  StepFacts Collect(ChunkId chunk, uint64_t clock);
  Bytes SumOf(ChunkId chunk);
  using SumKernel = decltype(kernels::Kernels::sum);
  // Sums what was collected, with at most `idle_cores` helpers.
  void AddUp(SumKernel sum, uint32_t idle_cores, float* out, size_t count);
  // Splits what was collected into parts and calls `add(inputs, offset, elements)` for each, on
  // this thread and on as many helpers as there are idle cores.
  template <typename Add>
  void InParts(uint32_t idle_cores, size_t count, const Add& add);
  // The chunk's gradients are consumed and its next weights are there: shows that to the ranks.
  void Land(ChunkId chunk, uint64_t clock);
  // Returns how many cores are left by sleeping ranks and `others`.
  uint32_t IdleCores(uint32_t others) const;

  NodeMemory* const memory_;
  AggregatorCore* const core_;
  const ChunkMap map_;
  const kernels::Kernels& kernels_;
  const bool lends_gradients_;
  const SumKernel into_arena_;  // for writing weights there
  ForkJoin* const helpers_;
  const uint32_t cores_;
  BufferPool pool_;
  std::vector<const float*> inputs_;  // scratch, by local rank
  std::vector<uint64_t> complete_;    // scratch, by local rank
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_NODE_ARENAS_H_

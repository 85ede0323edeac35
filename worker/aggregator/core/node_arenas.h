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

// How many threads are of use to help to add on a node with so many cores.
uint32_t HelpersFor(uint32_t local_ranks, uint32_t cores);

struct NodeArenasOptions {
  // Gives send buffers; null: the allocator does.
  std::shared_ptr<BlockSource> source;
  // A node's only rank's gradients are handed out where they lie, without a copy. Requires that
  // nobody reads them any more once the chunk's next weights are taken: a rank may write to them
  // from then on.
  bool lends_gradients = false;
  // Threads that add on cores where no rank runs; null: none. They outlive the arenas.
  ForkJoin* helpers = nullptr;
  uint32_t cores = 1;  // that ranks, caller and helpers share
};

// The node's arenas as the exchange sees them: sums gradients over the ranks straight into a send
// buffer, lands weights in place, and wakes ranks that sleep for them.
//
// Weights may land in place in every mode: a chunk's answer comes between its publication by all
// local ranks, who then read it no more in their step, and the next step's wait for it.
//
// Threads: one.
class NodeArenas final : public Arenas {
 public:
  // All outlive this; `core` and `memory` hold as many chunks as `map`.
  NodeArenas(NodeMemory* memory, AggregatorCore* core, const ChunkMap& map,
             const kernels::Kernels& kernels, const NodeArenasOptions& options = {});

  Bytes FirstWeights(ChunkId chunk) override;
  Sum TakeSum(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) override;
  absl::Status AddToWeights(ChunkId chunk, uint32_t first_element,
                            const numerics::CheckedPayload& delta) override;
  absl::Status Landed(ChunkId chunk, uint64_t clock) override;
  absl::Status TakeFinalWeights(ChunkId chunk, const Bytes& weights) override;

  // The sums of `clock` as the chunks' next weights, where no other node adds to them, in place of
  // TakeSum, TakeWeights and Landed. The chunks follow one another.
  void SumIntoWeights(ChunkId first, uint32_t chunks, uint64_t clock);
  // Likewise the mean over the step's samples, with the bits that OptimizerKind::kMean gives.
  // Errors: Internal: a gradient is not finite, or their sum.
  absl::Status MeanIntoWeights(ChunkId chunk, uint64_t clock);

  // Sums are made as they are taken, and all else is done at once.
  absl::StatusOr<bool> BeginSum(ChunkId chunk, uint64_t clock) override { return true; }
  absl::Status Poll(std::vector<ChunkId>* summed) override { return absl::OkStatus(); }
  bool busy() const override { return false; }
  void LandFirstWeights() override;
  absl::Status Describe(uint32_t local_rank, proto::Started* started) override {
    return absl::OkStatus();
  }
  size_t buffer_bytes() const override { return pool_.allocated_bytes(); }

 private:
  // Looks up the gradients from the chunk on, who has brought them, and what they count for.
  StepFacts Collect(ChunkId chunk, uint64_t clock);
  Bytes SumOf(ChunkId chunk);
  using SumKernel = decltype(kernels::Kernels::sum);
  // The sum of what was collected, by so many helpers at most.
  void AddUp(SumKernel sum, uint32_t idle_cores, float* out, size_t count);
  // Cuts what was collected into parts and calls `add(inputs, offset, elements)` for each, on this
  // thread and as many helpers as there are idle cores.
  template <typename Add>
  void InParts(uint32_t idle_cores, size_t count, const Add& add);
  // The ranks have no more to do with the chunk's gradients, and find its next weights.
  void Land(ChunkId chunk, uint64_t clock);
  // How many cores ranks that sleep, and `others`, leave.
  uint32_t IdleCores(uint32_t others) const;

  NodeMemory* const memory_;
  AggregatorCore* const core_;
  const ChunkMap map_;
  const kernels::Kernels& kernels_;
  const bool lends_gradients_;
  const SumKernel into_arena_;  // what writes weights there
  ForkJoin* const helpers_;
  const uint32_t cores_;
  BufferPool pool_;
  std::vector<const float*> inputs_;  // scratch, by local rank
  std::vector<uint64_t> complete_;    // scratch, by local rank
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_NODE_ARENAS_H_

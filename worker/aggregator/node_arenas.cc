#include "worker/aggregator/node_arenas.h"

#include <utility>

#include "common/copies.h"

namespace strata::worker {

NodeArenas::NodeArenas(NodeMemory* memory, AggregatorCore* core, const ChunkMap& map,
                       const kernels::Kernels& kernels, const NodeArenasOptions& options)
    : memory_(memory),
      core_(core),
      map_(map),
      kernels_(kernels),
      lends_gradients_(options.lends_gradients && memory->offsets().local_ranks == 1),
      pool_(BufferPool::kRetainedBytesMax, options.source),
      inputs_(memory->offsets().local_ranks),
      complete_(memory->offsets().local_ranks) {}

// A copy, because answers land in the arena while repetitions may still wait in a send queue.
Bytes NodeArenas::FirstWeights(ChunkId chunk) {
  const size_t count = map_.ElementsOf(chunk);
  std::shared_ptr<float> buffer = pool_.AllocateFloats(count);
  CopyBytes(CopyReason::kFirstWeights, buffer.get(), memory_->weights() + map_.OffsetOf(chunk),
            count * sizeof(float));
  return AsBytes(buffer, count);
}

Bytes NodeArenas::SumOf(ChunkId chunk) {
  const size_t count = map_.ElementsOf(chunk);
  if (lends_gradients_) {
    return Bytes(memory_->mapping(), reinterpret_cast<const std::byte*>(inputs_[0]),
                 count * sizeof(float));
  }
  std::shared_ptr<float> buffer = pool_.AllocateFloats(count);
  kernels_.sum(inputs_, buffer.get(), count);
  return AsBytes(buffer, count);
}

ExchangeNode::Sum NodeArenas::TakeSum(ChunkId chunk, uint64_t clock) {
  uint32_t samples = 0;
  for (uint32_t r = 0; r < inputs_.size(); ++r) {
    const RankBlock& rank = memory_->rank(r);
    inputs_[r] = memory_->gradients(r) + map_.OffsetOf(chunk);
    samples += rank.samples[clock % kSampleSlots].load(std::memory_order_relaxed);
    complete_[r] = rank.complete.load(std::memory_order_relaxed);
  }
  Bytes sum = SumOf(chunk);
  memory_->consumed(chunk.value())
      .store(core_->OnSummed(chunk, complete_), std::memory_order_release);
  return {std::move(sum), samples};
}

void NodeArenas::Land(ChunkId chunk, uint64_t landed) {
  // Sequentially consistent against the rank's store to waits_for: one of the two sees the other.
  memory_->landed(chunk.value()).store(landed);
  for (uint32_t r = 0; r < inputs_.size(); ++r) {
    RankBlock& rank = memory_->rank(r);
    if (rank.waits_for.load() == chunk.value() + 1) RingRank(&rank);
  }
}

void NodeArenas::TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) {
  CopyBytes(CopyReason::kIntoArena, memory_->weights() + map_.OffsetOf(chunk) + first_element,
            weights.data(), weights.size());
}

void NodeArenas::AddToWeights(ChunkId chunk, uint32_t first_element,
                              const kernels::CheckedPayload& delta) {
  float* const weights = memory_->weights() + map_.OffsetOf(chunk) + first_element;
  delta.AddTo(weights, weights);
}

void NodeArenas::Landed(ChunkId chunk, uint64_t clock) {
  Land(chunk, core_->OnLanded(chunk, clock));
}

void NodeArenas::TakeFinalWeights(ChunkId chunk, const Bytes& weights) {
  TakeWeights(chunk, 0, weights);
}

void NodeArenas::LandFirstWeights() {
  for (uint32_t c = 0; c < map_.chunks(); ++c) Land(ChunkId(c), 1);
}

}  // namespace strata::worker

#include "worker/aggregator/host/node_arenas.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "common/copies.h"
#include "worker/aggregator/core/step_facts.h"

namespace strata::worker {
namespace {

// What one thread adds at a time, so that a helper which comes late finds something left.
constexpr size_t kPartElements = 65536;
// What is sent and received meanwhile keeps one busy: with a helper there, steps take longer.
constexpr uint32_t kExchangeCores = 1;
// More threads than these do not make the memory any faster.
constexpr uint32_t kHelpersMax = 3;

}  // namespace

// One rank's gradients are no sum.
uint32_t HelpersFor(uint32_t local_ranks, uint32_t cores) {
  return local_ranks > 1 ? std::min(cores - 1, kHelpersMax) : 0;
}

NodeArenas::NodeArenas(NodeMemory* memory, AggregatorCore* core, const ChunkMap& map,
                       const kernels::Kernels& kernels, const NodeArenasOptions& options)
    : memory_(memory),
      core_(core),
      map_(map),
      kernels_(kernels),
      lends_gradients_(options.lends_gradients && memory->offsets().local_ranks == 1),
      into_arena_(map.elements() * sizeof(float) >= kernels::kFarBytes ? kernels.sum_far
                                                                       : kernels.sum),
      helpers_(options.helpers),
      cores_(options.cores),
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

StepFacts NodeArenas::Collect(ChunkId chunk, uint64_t clock) {
  for (uint32_t r = 0; r < inputs_.size(); ++r) {
    const RankBlock& rank = memory_->rank(r);
    inputs_[r] = memory_->gradients(r) + map_.OffsetOf(chunk);
    complete_[r] = rank.complete.load(std::memory_order_relaxed);
  }
  return FactsOfStep(*memory_, clock);
}

// A rank that does not sleep for weights has a core of its own, and so has the caller.
uint32_t NodeArenas::IdleCores(uint32_t others) const {
  uint32_t taken = 1 + others;
  for (uint32_t r = 0; r < inputs_.size(); ++r) {
    if (memory_->rank(r).waits_for.load(std::memory_order_relaxed) == 0) ++taken;
  }
  return cores_ > taken ? cores_ - taken : 0;
}

void NodeArenas::AddUp(SumKernel sum, uint32_t idle_cores, float* out, size_t count) {
  if (helpers_ == nullptr || idle_cores == 0 || count < 2 * kPartElements) {
    sum(inputs_, out, count);
    return;
  }
  const auto parts = static_cast<uint32_t>((count + kPartElements - 1) / kPartElements);
  helpers_->Run(parts, idle_cores, [&](uint32_t part) {
    const size_t at = part * kPartElements;
    absl::InlinedVector<const float*, 16> inputs(inputs_.begin(), inputs_.end());
    for (const float*& input : inputs) input += at;
    sum(inputs, out + at, std::min(kPartElements, count - at));
  });
}

Bytes NodeArenas::SumOf(ChunkId chunk) {
  const size_t count = map_.ElementsOf(chunk);
  if (lends_gradients_) {
    return Bytes(memory_->mapping(), reinterpret_cast<const std::byte*>(inputs_[0]),
                 count * sizeof(float));
  }
  std::shared_ptr<float> buffer = pool_.AllocateFloats(count);
  AddUp(kernels_.sum, IdleCores(kExchangeCores), buffer.get(), count);
  return AsBytes(buffer, count);
}

ExchangeNode::Sum NodeArenas::TakeSum(ChunkId chunk, uint64_t clock) {
  const StepFacts step = Collect(chunk, clock);
  Bytes sum = SumOf(chunk);
  memory_->consumed(chunk.value())
      .store(core_->OnSummed(chunk, complete_), std::memory_order_release);
  return {std::move(sum), step};
}

void NodeArenas::SumIntoWeights(ChunkId first, uint32_t chunks, uint64_t clock) {
  Collect(first, clock);
  const uint64_t begin = map_.OffsetOf(first);
  const ChunkId last(first.value() + chunks - 1);
  AddUp(into_arena_, IdleCores(0), memory_->weights() + begin,
        map_.OffsetOf(last) + map_.ElementsOf(last) - begin);
  for (uint32_t c = first.value(); c <= last.value(); ++c) {
    memory_->consumed(c).store(core_->OnSummed(ChunkId(c), complete_), std::memory_order_release);
    memory_->Land(c, core_->OnLanded(ChunkId(c), clock));
  }
}

absl::Status NodeArenas::TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) {
  const float* const from = weights.floats();
  float* const to = memory_->weights() + map_.OffsetOf(chunk) + first_element;
  into_arena_(absl::MakeConstSpan(&from, 1), to, weights.float_count());
  CountCopy(CopyReason::kIntoArena, weights.size());
  return absl::OkStatus();
}

absl::Status NodeArenas::AddToWeights(ChunkId chunk, uint32_t first_element,
                                      const kernels::CheckedPayload& delta) {
  float* const weights = memory_->weights() + map_.OffsetOf(chunk) + first_element;
  delta.AddTo(weights, weights);
  return absl::OkStatus();
}

absl::Status NodeArenas::Landed(ChunkId chunk, uint64_t clock) {
  memory_->Land(chunk.value(), core_->OnLanded(chunk, clock));
  return absl::OkStatus();
}

absl::Status NodeArenas::TakeFinalWeights(ChunkId chunk, const Bytes& weights) {
  return TakeWeights(chunk, 0, weights);
}

void NodeArenas::LandFirstWeights() {
  for (uint32_t c = 0; c < map_.chunks(); ++c) memory_->Land(c, 1);
}

}  // namespace strata::worker

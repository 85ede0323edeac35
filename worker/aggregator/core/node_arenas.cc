#include "worker/aggregator/core/node_arenas.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/diverged.h"
#include "worker/aggregator/core/arenas.h"

namespace strata::worker {
namespace {

// Bytes that one thread sums at a time, small enough that a late helper still finds work.
constexpr size_t kPartElements = 65536;
// Elements that are summed and then scaled at a time: 32 KiB.
constexpr size_t kPieceElements = 8192;
// Sending and receiving keep one core busy meanwhile: with a helper on it, steps take longer.
constexpr uint32_t kExchangeCores = 1;
// More threads than these do not speed up memory.
constexpr uint32_t kHelpersMax = 3;

}  // namespace

// One rank's gradients need no sum.
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

template <typename Add>
void NodeArenas::InParts(uint32_t idle_cores, size_t count, const Add& add) {
  if (helpers_ == nullptr || idle_cores == 0 || count < 2 * kPartElements) {
    add(absl::MakeConstSpan(inputs_), 0, count);
    return;
  }
  const auto parts = static_cast<uint32_t>((count + kPartElements - 1) / kPartElements);
  helpers_->Run(parts, idle_cores, [&](uint32_t part) {
    const size_t at = part * kPartElements;
    absl::InlinedVector<const float*, 16> inputs(inputs_.begin(), inputs_.end());
    for (const float*& input : inputs) input += at;
    add(absl::MakeConstSpan(inputs), at, std::min(kPartElements, count - at));
  });
}

void NodeArenas::AddUp(SumKernel sum, uint32_t idle_cores, float* out, size_t count) {
  InParts(idle_cores, count,
          [&](absl::Span<const float* const> inputs, size_t at, size_t elements) {
            sum(inputs, out + at, elements);
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
  for (uint32_t c = first.value(); c <= last.value(); ++c) Land(ChunkId(c), clock);
}

void NodeArenas::Land(ChunkId chunk, uint64_t clock) {
  memory_->consumed(chunk.value())
      .store(core_->OnSummed(chunk, complete_), std::memory_order_release);
  memory_->Land(chunk.value(), core_->OnLanded(chunk, clock));
}

absl::Status NodeArenas::MeanIntoWeights(ChunkId chunk, uint64_t clock) {
  const StepFacts step = Collect(chunk, clock);
  float* const weights = memory_->weights() + map_.OffsetOf(chunk);
  const OptimizerParams mean = {.kind = OptimizerKind::kMean};
  // Without samples the sum is 0, and so is the mean.
  const double samples = std::max<uint32_t>(1, step.samples);
  const kernels::OptimizerStep scaled = {.gradient_scale = static_cast<float>(1.0 / samples),
                                         .far = into_arena_ == kernels_.sum_far};
  std::atomic<bool> finite{true};
  InParts(IdleCores(0), map_.ElementsOf(chunk),
          [&](absl::Span<const float* const> inputs, size_t at, size_t elements) {
            // The sums of a piece stay in the core's own cache until they are scaled.
            std::array<float, kPieceElements> sums;
            absl::InlinedVector<const float*, 16> piece(inputs.begin(), inputs.end());
            for (size_t done = 0; done < elements; done += kPieceElements) {
              const size_t count = std::min(kPieceElements, elements - done);
              float* const to = weights + at + done;
              if (!kernels_.sum(piece, sums.data(), count)) finite.store(false);
              kernels_.optimize(mean, scaled, sums.data(), to, to, nullptr, nullptr, count);
              for (const float*& input : piece) input += count;
            }
          });
  if (!finite.load()) {
    return DivergedError(
        absl::StrFormat("the gradients of chunk %d of step %d, or their sum, are not finite",
                        chunk.value(), clock));
  }
  Land(chunk, clock);
  return absl::OkStatus();
}

absl::Status NodeArenas::TakeWeights(ChunkId chunk, uint32_t first_element, const Bytes& weights) {
  const float* const from = weights.floats();
  float* const to = memory_->weights() + map_.OffsetOf(chunk) + first_element;
  into_arena_(absl::MakeConstSpan(&from, 1), to, weights.float_count());
  CountCopy(CopyReason::kIntoArena, weights.size());
  return absl::OkStatus();
}

absl::Status NodeArenas::AddToWeights(ChunkId chunk, uint32_t first_element,
                                      const numerics::CheckedPayload& delta) {
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
  for (uint32_t c = 0; c < map_.chunks(); ++c) memory_->Land(c, core_->clock(ChunkId(c)) + 1);
}

}  // namespace strata::worker

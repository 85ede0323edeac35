#include "worker/exchange/core/clip_layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/job/connections.h"
#include "common/require.h"
#include "numerics/norm_update.h"
#include "numerics/present_update.h"

namespace strata::worker {

ClipLayer::ClipLayer(ExchangeStage* below, const CoreOptions& options)
    : ExchangeLayer(below),
      clip_norm_(options.record.job().optimizer().clip_norm()),
      marks_absent_(options.record.marks_absent()),
      pool_(BufferPool::kRetainedBytesMax,
            PushesOutliveAnswers(options.record.job()) ? nullptr : options.memory) {
  STRATA_REQUIRE(clip_norm_ > 0);
  const ChunkMap map(options.record.layout().elements(),
                     options.record.placement().chunk_elements());
  chunks_.resize(map.chunks());
  for (uint32_t c = 0; c < map.chunks(); ++c) {
    chunks_[c].runs = OptimizerRuns(options.record.layout(), map, ChunkId(c));
  }
}

absl::Status ClipLayer::Submit(ChunkId chunk, absl::Time now, CoreActions* actions) {
  actions->node.push_back({.kind = NodeAction::Kind::kSum,
                           .chunk = chunk,
                           .clock = first_clock() + chunks_[chunk.value()].sums});
  return absl::OkStatus();
}

absl::Status ClipLayer::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  return FinishBelow(clocks, now, actions);
}

// A sum that is not finite gives no norm: it is passed on unchanged, and refused below.
double ClipLayer::Factor() const {
  double squares = 0;
  for (const Chunk& chunk : chunks_) {
    if (chunk.step.samples == 0) continue;
    double sum = 0;
    for (const OptimizerRun& run : chunk.runs) {
      if (!run.averaged) sum += numerics::SumOfSquares(chunk.sum.floats() + run.offset, run.count);
    }
    squares += sum / (double{1} * chunk.step.samples * chunk.step.samples);
  }
  const double norm = std::sqrt(squares);
  return norm > clip_norm_ && std::isfinite(norm) ? clip_norm_ / norm : 1;
}

Bytes ClipLayer::Scaled(const Chunk& chunk, float factor) {
  const size_t count = chunk.sum.float_count();
  const std::shared_ptr<float> scaled = pool_.AllocateFloats(count);
  const float* const from = chunk.sum.floats();
  for (const OptimizerRun& run : chunk.runs) {
    const float by = run.averaged ? 1.0f : factor;
    for (size_t i = run.offset; i < run.offset + run.count; ++i) {
      const float value = from[i] * by;
      // A present element may underflow, but not to -0.0, which marks an absent one.
      scaled.get()[i] = marks_absent_ && !numerics::IsAbsent(from[i]) ? value + 0.0f : value;
    }
  }
  return AsBytes(scaled, count);
}

absl::Status ClipLayer::OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                  absl::Time now, CoreActions* actions) {
  if (asked.kind != NodeAction::Kind::kSum) {
    return GiveBelow(asked, std::move(payload), step, now, actions);
  }
  Chunk& chunk = chunks_[asked.chunk.value()];
  chunk.sum = std::move(payload);
  chunk.step = step;
  ++chunk.sums;
  held_.push_back(asked.chunk);
  if (held_.size() < chunks_.size()) return absl::OkStatus();
  if (const double factor = Factor(); factor < 1) {
    for (Chunk& one : chunks_) one.sum = Scaled(one, static_cast<float>(factor));
  }
  absl::Status status;
  for (const ChunkId id : std::exchange(held_, {})) {
    absl::Status submitted = SubmitBelow(id, now, actions);
    if (status.ok()) status = std::move(submitted);
  }
  return status;
}

absl::Status ClipLayer::FromBelow(NodeAction action, absl::Time now, CoreActions* actions) {
  if (action.kind != NodeAction::Kind::kSum) {
    actions->node.push_back(std::move(action));
    return absl::OkStatus();
  }
  Chunk& chunk = chunks_[action.chunk.value()];
  return GiveBelow(action, std::exchange(chunk.sum, Bytes()), chunk.step, now, actions);
}

}  // namespace strata::worker

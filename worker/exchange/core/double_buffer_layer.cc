#include "worker/exchange/core/double_buffer_layer.h"

#include <utility>

#include "common/copies.h"
#include "common/job/consistency.h"
#include "common/require.h"

namespace strata::worker {

DoubleBufferLayer::DoubleBufferLayer(ExchangeStage* below, const proto::JobRecord& record)
    : ExchangeLayer(below),
      map_(record.layout().elements(), record.placement().chunk_elements()),
      clocks_per_cut_(ClocksPerCheckpoint(record.job())),
      resume_clock_(record.resume().clock()),
      chunks_(map_.chunks()) {}

absl::Status DoubleBufferLayer::Submit(ChunkId chunk, absl::Time now, CoreActions* actions) {
  actions->node.push_back(
      {.kind = NodeAction::Kind::kSum, .chunk = chunk, .clock = chunks_[chunk.value()].clock});
  return absl::OkStatus();
}

absl::Status DoubleBufferLayer::OnPayload(const NodeAction& asked, Bytes payload,
                                          const StepFacts& step, absl::Time now,
                                          CoreActions* actions) {
  if (asked.kind != NodeAction::Kind::kSum) {
    if (clocks_per_cut_ == 1) Keep(asked.chunk, {{.weights = payload}});  // also for step 1
    return GiveBelow(asked, std::move(payload), step, now, actions);
  }
  Chunk& chunk = chunks_[asked.chunk.value()];
  held_bytes_ += payload.size();
  chunk.waiting = Sum{std::move(payload), step};
  ++chunk.clock;
  ++waiting_;
  return chunk.under_way ? absl::OkStatus() : Turn(asked.chunk, now, actions);
}

void DoubleBufferLayer::Keep(ChunkId id, const std::vector<NodeAction>& parts) {
  const uint32_t all = map_.ElementsOf(id);
  const std::shared_ptr<float> copy = pool_.AllocateFloats(all);
  for (const NodeAction& part : parts) {
    STRATA_REQUIRE(!part.delta);
    CopyBytes(CopyReason::kCut, copy.get() + part.first_element, part.weights.data(),
              part.weights.size());
  }
  chunks_[id.value()].arena = AsBytes(copy, all);
}

void DoubleBufferLayer::AddArena(ChunkId chunk, NodeChunkImage* image) const {
  image->arena = chunks_[chunk.value()].arena;
  STRATA_REQUIRE(image->arena.float_count() == map_.ElementsOf(chunk));
}

absl::Status DoubleBufferLayer::Restore(ChunkId id, const NodeChunkImage& image) {
  if (image.arena.float_count() != map_.ElementsOf(id)) {
    return absl::InvalidArgumentError("no weights that its step begins with");
  }
  Keep(id, {{.weights = image.arena}});
  return ExchangeLayer::Restore(id, image);
}

// In a job that resumes, the node begins with the weights that lack a sum, and the others wait.
absl::Status DoubleBufferLayer::TakeFirst(NodeAction action, CoreActions* actions) {
  Chunk& chunk = chunks_[action.chunk.value()];
  if (resume_clock_ > 0) {
    GoOnAt(action.chunk, resume_clock_, std::exchange(action.weights, chunk.arena));
  } else if (clocks_per_cut_ == 1) {
    Keep(action.chunk, {action});
  }
  actions->node.push_back(std::move(action));
  return absl::OkStatus();
}

void DoubleBufferLayer::GoOnAt(ChunkId id, uint64_t clock, Bytes weights) {
  Chunk& chunk = chunks_[id.value()];
  STRATA_REQUIRE(clock >= 1 && chunk.clock == 0 && !weights.empty());
  chunk.clock = clock;
  held_bytes_ += weights.size();
  chunk.answer.push_back({.kind = NodeAction::Kind::kDeliver,
                          .chunk = id,
                          .clock = clock - 1,
                          .lands = true,
                          .weights = std::move(weights)});
}

absl::Status DoubleBufferLayer::Turn(ChunkId id, absl::Time now, CoreActions* actions) {
  Chunk& chunk = chunks_[id.value()];
  if (chunk.clock == 1) {  // the first step updates nothing
    actions->node.push_back(
        {.kind = NodeAction::Kind::kDeliver, .chunk = id, .clock = 0, .lands = true});
  }
  const bool is_kept = clocks_per_cut_ > 0 && chunk.clock % clocks_per_cut_ == 0;
  const std::vector<NodeAction> released = is_kept ? chunk.answer : std::vector<NodeAction>();
  Release(id, /*lands=*/true, actions);
  chunk.submitted = *std::exchange(chunk.waiting, std::nullopt);
  chunk.under_way = true;
  ++under_way_;
  --waiting_;
  absl::Status status = SubmitBelow(id, now, actions);
  if (!released.empty()) Keep(id, released);
  absl::Status finished = MaybeFinish(now, actions);
  return status.ok() ? finished : status;
}

void DoubleBufferLayer::Release(ChunkId id, bool lands, CoreActions* actions) {
  Chunk& chunk = chunks_[id.value()];
  for (NodeAction& part : std::exchange(chunk.answer, {})) {
    held_bytes_ -= part.weights.size();
    part.clock = chunk.clock - 1;
    part.lands = part.lands && lands;
    actions->node.push_back(std::move(part));
  }
}

absl::Status DoubleBufferLayer::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  clocks_ = clocks;
  return MaybeFinish(now, actions);
}

// No step waits for later answers: they make the node's final weights.
absl::Status DoubleBufferLayer::MaybeFinish(absl::Time now, CoreActions* actions) {
  if (!clocks_ || waiting_ > 0) return absl::OkStatus();
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    if (!chunks_[c].under_way) Release(ChunkId(c), /*lands=*/false, actions);
  }
  return FinishBelow(*clocks_, now, actions);
}

absl::Status DoubleBufferLayer::FromBelow(NodeAction action, absl::Time now, CoreActions* actions) {
  const ChunkId id = action.chunk;
  Chunk& chunk = chunks_[id.value()];
  if (action.kind == NodeAction::Kind::kSum) {
    held_bytes_ -= chunk.submitted.bytes.size();
    const StepFacts step = chunk.submitted.step;
    return GiveBelow(action, std::exchange(chunk.submitted.bytes, Bytes()), step, now, actions);
  }
  if (action.kind == NodeAction::Kind::kDeliverFirst) return TakeFirst(std::move(action), actions);
  if (action.kind != NodeAction::Kind::kDeliver) {
    actions->node.push_back(std::move(action));
    return absl::OkStatus();
  }
  const bool lands = action.lands;
  held_bytes_ += action.weights.size();
  chunk.answer.push_back(std::move(action));
  if (!lands) return absl::OkStatus();
  chunk.under_way = false;
  --under_way_;
  if (chunk.waiting) return Turn(id, now, actions);
  if (clocks_) Release(id, /*lands=*/false, actions);
  return absl::OkStatus();
}

}  // namespace strata::worker

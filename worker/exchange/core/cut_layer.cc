#include "worker/exchange/core/cut_layer.h"

#include <iterator>
#include <utility>

#include "common/job/consistency.h"
#include "common/require.h"

namespace strata::worker {
namespace {

std::vector<uint64_t> BeginsOf(const ChunkMap& map) {
  std::vector<uint64_t> begins;
  for (uint32_t c = 0; c < map.chunks(); ++c) begins.push_back(map.OffsetOf(ChunkId(c)));
  return begins;
}

}  // namespace

CutLayer::CutLayer(ExchangeStage* below, const proto::JobRecord& record)
    : ExchangeLayer(below),
      map_(record.layout().elements(), record.placement().chunk_elements()),
      steps_per_clock_(StepsPerClock(record.job())),
      clocks_per_cut_(ClocksPerCheckpoint(record.job())),
      has_rest_(record.job().consistency().lazy().has_significance()),
      cuts_(BeginsOf(map_)),
      chunks_(map_.chunks()) {
  STRATA_REQUIRE(clocks_per_cut_ > 0 && NodesKeepState(record.job()));
}

absl::Status CutLayer::Submit(ChunkId id, absl::Time now, CoreActions* actions) {
  std::optional<Progress>& chunk = chunks_[id.value()];
  if (chunk) {
    CutIfDue(id, chunk->submitted);
  } else {
    chunk = {.submitted = first_clock(), .answered = first_clock()};
  }
  ++chunk->submitted;
  return SubmitBelow(id, now, actions);
}

absl::Status CutLayer::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  const uint64_t rounds = clocks / steps_per_clock_;
  const bool is_whole = clocks % steps_per_clock_ == 0;
  if (is_whole && !has_rest_) {
    last_ = clocks;
    for (uint32_t c = 0; c < map_.chunks(); ++c) MaybeCutLast(ChunkId(c));
  } else {
    if (is_whole) FailAt(rounds);
    FailAt(rounds + 1);
  }
  return FinishBelow(clocks, now, actions);
}

absl::Status CutLayer::FromBelow(NodeAction action, absl::Time now, CoreActions* actions) {
  const ChunkId id = action.chunk;
  const bool answers = action.kind == NodeAction::Kind::kDeliver && action.lands;
  actions->node.push_back(std::move(action));
  if (!answers) return absl::OkStatus();
  ++chunks_[id.value()]->answered;
  MaybeCutLast(id);
  return absl::OkStatus();
}

void CutLayer::MaybeCutLast(ChunkId id) {
  const std::optional<Progress>& chunk = chunks_[id.value()];
  if (chunk && chunk->answered == last_) CutIfDue(id, chunk->answered);
}

void CutLayer::CutIfDue(ChunkId id, uint64_t steps) {
  const uint64_t clock = steps / steps_per_clock_;
  if (steps % steps_per_clock_ != 0 || clock % clocks_per_cut_ != 0) return;
  NodeChunkImage image{.elements = map_.ElementsOf(id)};
  AddToImage(id, &image);
  if (above_) above_(id, &image);
  cuts_.Add(id.value(), clock, std::move(image));
}

void CutLayer::FailAt(uint64_t clock) {
  const bool is_new = clock * steps_per_clock_ > first_clock();
  if (clock % clocks_per_cut_ != 0 || !is_new) return;
  failures_.push_back({.clock = clock, .problem = "the job ends there, within a round"});
}

std::vector<Cut<NodeChunkImage>> CutLayer::TakeCuts() {
  std::vector<Cut<NodeChunkImage>> cuts = cuts_.Take();
  std::vector<Cut<NodeChunkImage>> failures = std::exchange(failures_, {});
  std::move(failures.begin(), failures.end(), std::back_inserter(cuts));
  return cuts;
}

}  // namespace strata::worker

#include "worker/exchange/layers/cut_layer.h"

#include <iterator>
#include <utility>

#include "common/job/consistency.h"
#include "common/job/kept_state.h"
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
      steps_(map_.chunks()) {
  STRATA_REQUIRE(clocks_per_cut_ > 0 && NodesKeepState(record.job()));
}

absl::Status CutLayer::Submit(ChunkId chunk, absl::Time now, CoreActions* actions) {
  std::optional<uint64_t>& steps = steps_[chunk.value()];
  if (steps) {
    CutIfDue(chunk, /*is_last=*/false);
  } else {
    steps = first_clock();
  }
  ++*steps;
  return SubmitBelow(chunk, now, actions);
}

absl::Status CutLayer::FromBelow(NodeAction action, absl::Time now, CoreActions* actions) {
  if (action.kind == NodeAction::Kind::kDeliverFinal) CutIfDue(action.chunk, /*is_last=*/true);
  actions->node.push_back(std::move(action));
  return absl::OkStatus();
}

void CutLayer::CutIfDue(ChunkId chunk, bool is_last) {
  if (!steps_[chunk.value()]) return;
  const uint64_t steps = *steps_[chunk.value()];
  const uint64_t clock = steps / steps_per_clock_;
  const bool is_whole = steps % steps_per_clock_ == 0;
  if (is_last && (!is_whole || has_rest_)) {
    if (is_whole) FailAt(clock);
    return FailAt(clock + 1);
  }
  if (!is_whole || clock % clocks_per_cut_ != 0) return;
  NodeChunkImage image{.elements = map_.ElementsOf(chunk)};
  AddToImage(chunk, &image);
  if (above_) above_(chunk, &image);
  cuts_.Add(chunk.value(), clock, std::move(image));
}

void CutLayer::FailAt(uint64_t clock) {
  if (clock % clocks_per_cut_ != 0 || failed_ >= clock) return;
  failed_ = clock;
  failures_.push_back({.clock = clock, .problem = "the job ends there, within a round"});
}

std::vector<Cut<NodeChunkImage>> CutLayer::TakeCuts() {
  std::vector<Cut<NodeChunkImage>> cuts = cuts_.Take();
  std::vector<Cut<NodeChunkImage>> failures = std::exchange(failures_, {});
  std::move(failures.begin(), failures.end(), std::back_inserter(cuts));
  return cuts;
}

}  // namespace strata::worker

#include "worker/exchange/core/push_window.h"

#include "common/require.h"

namespace strata::worker {
namespace {

int64_t Urgency(ChunkId chunk) { return -static_cast<int64_t>(chunk.value()); }

}  // namespace

PushWindow::PushWindow(const std::vector<ChunkId>& chunks, uint32_t window, Reserve reserve)
    : urgent_max_(reserve == Reserve::kLowest ? window - 1 : window),
      reserve_(reserve == Reserve::kLowest) {
  STRATA_REQUIRE(window >= 1);
  for (ChunkId chunk : chunks) {
    states_[chunk] = State();
    unpushed_.insert({0, chunk});
  }
}

void PushWindow::Ready(ChunkId chunk) {
  const auto known = states_.find(chunk);
  STRATA_REQUIRE(known != states_.end());
  State& state = known->second;
  state.ready = true;
  ready_.insert({state.clock, Urgency(chunk)});
}

std::optional<ChunkId> PushWindow::Next() {
  if (ready_.empty()) return std::nullopt;
  if (urgent_ < urgent_max_) {
    return Push(ChunkId(static_cast<uint32_t>(-ready_.begin()->second)), false);
  }
  if (!reserve_ || reserved_) return std::nullopt;
  const ChunkId lowest = unpushed_.begin()->second;
  if (!states_[lowest].ready) return std::nullopt;
  return Push(lowest, true);
}

ChunkId PushWindow::Push(ChunkId chunk, bool reserved) {
  State& state = states_[chunk];
  ready_.erase({state.clock, Urgency(chunk)});
  unpushed_.erase({state.clock, chunk});
  ++state.clock;
  unpushed_.insert({state.clock, chunk});
  state.ready = false;
  state.holds_reserved = reserved;
  if (reserved) {
    reserved_ = true;
  } else {
    ++urgent_;
  }
  return chunk;
}

void PushWindow::Answered(ChunkId chunk) {
  STRATA_REQUIRE(unanswered() > 0);
  if (states_[chunk].holds_reserved) {
    reserved_ = false;
  } else {
    --urgent_;
  }
}

}  // namespace strata::worker

// The part of SimNode that sees to changes of the job's nodes, as NodeTraining does.
#include <algorithm>
#include <utility>

#include "tests/sim/check/view_checker.h"
#include "tests/sim/cluster/sim_node.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

using worker::ViewGate;

void SimNode::ProposeView(uint32_t number) {
  proposed_ = std::max(proposed_, number);
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::ChangeView(const proto::ViewChange& change) {
  views_.push_back(change);
  timers_.After(absl::ZeroDuration(), [this] { Turn(); });
}

void SimNode::TakeViews() {
  for (const proto::ViewChange& change : std::exchange(views_, {})) {
    if (!stopped_) TakeView(change);
  }
  if (!stopped_) Promise();
}

void SimNode::TakeView(const proto::ViewChange& change) {
  if (!Goes(gate_.Take(change, Close()))) return;
  if (!is_replaced()) world_->views().OnHeard(job_, options_.node, change.number());
  const std::optional<uint64_t> leaves_at = gate_.views().LeavesAt(NodeId(options_.node));
  if (leaves_at) exchange_->LeaveAt(*leaves_at);
  for (uint32_t r = 0; r < ranks_.size(); ++r) {
    if (std::exchange(ranks_[r].held, false)) WakeRank(r, absl::ZeroDuration());
  }
}

void SimNode::Promise() {
  if (!training_ || proposed_ == 0) return;
  const uint32_t number = std::exchange(proposed_, 0);
  const std::optional<uint64_t> from = gate_.Promise(number, [this](uint64_t) { return Close(); });
  if (!from) return;
  if (is_replaced()) return;
  world_->views().OnPromised(job_, options_.node, number, *from);
  options_.on_promised(number, *from);
}

bool SimNode::is_replaced() const {
  return replaced_ || !world_->views().IsNewest(job_, options_.node, options_.incarnation);
}

uint64_t SimNode::Close() {
  uint64_t told = 0;
  for (const Rank& rank : ranks_) told = std::max(told, rank.told);
  return told;
}

uint64_t SimNode::End() const {
  return std::min(clocks_, gate_.views().LeavesAt(NodeId(options_.node)).value_or(clocks_));
}

// It asks for some steps at once, as who draws data ahead does.
bool SimNode::MayBegin(uint32_t r) {
  Rank& rank = ranks_[r];
  if (rank.told <= rank.step) {
    const uint64_t ahead = world_->plan(job_).changes_nodes() ? world_->random().Below(3) : 0;
    rank.told = std::min(rank.step + 1 + ahead, std::max(gate_.open_until(), rank.told));
    rank.held = rank.told <= rank.step;
    if (rank.held) return false;
  }
  if (!world_->plan(job_).changes_nodes()) return true;
  if (rank.waited == 0 && !is_replaced()) world_->views().OnStep(job_, options_.node, rank.step);
  return true;
}

}  // namespace strata::sim

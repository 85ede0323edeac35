// The part of NodeTraining that sees to changes of the job's nodes, and of where its shards lie.
#include <algorithm>

#include "worker/aggregator/node_training.h"

namespace strata::worker {

absl::Status NodeTraining::Hear(const proto::AgentMessage& message) {
  if (message.has_move_shard()) {
    const proto::MoveShard& move = message.move_shard();
    return exchange_->OnShardMoved({ShardId(move.shard()), move.endpoint(), move.generation()});
  }
  if (message.has_propose_view()) {
    proposed_ = std::max(proposed_.value_or(0), message.propose_view().number());
    Promise();
  }
  return message.has_change_view() ? ChangeView(message.change_view()) : absl::OkStatus();
}

void NodeTraining::Promise() {
  if (phase_ != Phase::kTraining || !proposed_) return;
  const uint32_t number = *std::exchange(proposed_, std::nullopt);
  const std::optional<uint64_t> from =
      gate_.Promise(number, [this](uint64_t until) { return Close(until); });
  if (!from) return;
  promised_.emplace();
  promised_->set_node(parts_.launch.node());
  promised_->set_number(number);
  promised_->set_from_clock(*from);
}

uint64_t NodeTraining::Close(uint64_t until) {
  memory_.header().views_closed_at.store(until == ViewGate::kOpen ? 0 : until);
  uint64_t told = 0;
  for (uint32_t r = 0; r < leave_taken_.size(); ++r) {
    told = std::max(told, memory_.rank(r).told.load());
    RingRank(&memory_.rank(r));
  }
  return told;
}

absl::Status NodeTraining::ChangeView(const proto::ViewChange& change) {
  const uint32_t before = gate_.views().number();
  absl::Status taken = gate_.Take(change, Close(gate_.open_until()));
  if (!taken.ok()) return taken;
  const bool is_news = gate_.views().number() != before;
  if (is_news && phase_ == Phase::kTraining) {
    ranks_.SendChange(change);
    memory_.header().view_number.store(change.number());
  }
  const std::optional<uint64_t> leaves_at = gate_.views().LeavesAt(NodeId(parts_.launch.node()));
  if (leaves_at) exchange_->LeaveAt(*leaves_at);
  Close(gate_.open_until());
  return absl::OkStatus();
}

bool NodeTraining::ranks_await_view() const {
  for (uint32_t r = 0; r < leave_taken_.size(); ++r) {
    if (memory_.rank(r).awaits_view.load() != 0) return true;
  }
  return false;
}

}  // namespace strata::worker

// The part of NodeTraining that sees to changes of the job's nodes, and of where its shards lie.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/log.h"
#include "worker/aggregator/exchange_text.h"
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
  if (message.has_stop_ring()) return StopRing(message.stop_ring().number());
  if (message.has_form_ring()) return FormRing(message.form_ring());
  return message.has_change_view() ? ChangeView(message.change_view()) : absl::OkStatus();
}

void NodeTraining::Promise() {
  if (phase_ != Phase::kTraining || !proposed_) return;
  const uint32_t number = *std::exchange(proposed_, std::nullopt);
  const std::optional<uint64_t> from =
      gate_.Promise(number, [this](uint64_t until) { return Close(until); });
  if (!from) return;
  proto::ViewPromised* const promised = answers_.emplace_back().mutable_view_promised();
  promised->set_node(parts_.launch.node());
  promised->set_number(number);
  promised->set_from_clock(*from);
}

absl::Status NodeTraining::StopRing(uint32_t number) {
  proto::RingStopped answer;
  answer.set_node(parts_.launch.node());
  answer.set_number(number);
  absl::StatusOr<std::optional<RanksRing::Answer>> stopped =
      absl::FailedPreconditionError("its first weights are not there yet");
  const bool is_news = stopped_ != number || asked_ == number;
  if (ranks_train()) {
    const std::optional<uint64_t> from = gate_.Promise(
        number, [this](uint64_t until) { return Close(until); }, ViewGate::kNoMargin);
    if (!from) return absl::OkStatus();  // old news
    answer.set_from_clock(*from);
    stopped = StopExchange(number);
  }
  if (stopped.ok()) {
    stopped_ = number;
    asked_ = *stopped ? 0 : number;
    if (!*stopped) return absl::OkStatus();
    const StoppedRing& ring = (*stopped)->ring;
    if (is_news) {
      LogInfo("job %d node %d: stops after %d steps, for ring %d", parts_.launch.record().job_id(),
              parts_.launch.node(), ring.clock, number);
    }
    answer.set_clock(ring.clock);
    answer.set_is_over(ring.is_over);
    answer.set_nccl_id((*stopped)->nccl_id);
  } else if (absl::IsFailedPrecondition(stopped.status())) {
    asked_ = 0;
    answer.set_error(absl::StrFormat("node %d (%s): %s", parts_.launch.node(),
                                     parts_.launch.node_name(), stopped.status().message()));
  } else {
    return stopped.status();
  }
  *answers_.emplace_back().mutable_ring_stopped() = answer;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<RanksRing::Answer>> NodeTraining::StopExchange(uint32_t number) {
  if (ranks_ring_) {
    ranks_ring_->Stop(number);
    return ranks_ring_->Gather();
  }
  const absl::StatusOr<StoppedRing> stopped = exchange_->StopRing(number);
  if (!stopped.ok()) return stopped.status();
  return RanksRing::Answer{.ring = *stopped, .nccl_id = ""};
}

// The ring is there before the ranks go on, and the sums of the steps that they have been told of
// go to it.
absl::Status NodeTraining::FormRing(const proto::FormRing& forming) {
  const proto::ViewChange& change = forming.change();
  if (change.number() <= gate_.views().number()) return absl::OkStatus();  // old news
  if (absl::Status formed = exchange_->FormRing(forming); !formed.ok()) return formed;
  if (absl::Status taken = TakeChange(change); !taken.ok()) return taken;
  if (change.number() >= stopped_) asked_ = stopped_ = 0;
  if (!forming.is_over()) {
    if (absl::Status fits = CheckMembers(forming); !fits.ok()) return fits;
  }
  return ranks_ring_ ? ranks_ring_->Form(forming) : absl::OkStatus();
}

// Ranks share samples among the nodes whose gradients are summed.
absl::Status NodeTraining::CheckMembers(const proto::FormRing& forming) const {
  const Views& views = gate_.views();
  std::vector<uint32_t> members(forming.nodes().begin(), forming.nodes().end()), known;
  for (const NodeId node : views.NodesAt(views.newest_clock())) known.push_back(node.value());
  std::sort(members.begin(), members.end());
  std::sort(known.begin(), known.end());
  if (members == known) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "ring %d has nodes %s, but by the changes that this node knows the job has %s",
      forming.change().number(), absl::StrJoin(members, ", "), absl::StrJoin(known, ", ")));
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
  if (absl::Status taken = TakeChange(change); !taken.ok()) return taken;
  const std::optional<uint64_t> leaves_at = gate_.views().LeavesAt(NodeId(parts_.launch.node()));
  if (leaves_at) exchange_->LeaveAt(*leaves_at);
  return absl::OkStatus();
}

absl::Status NodeTraining::TakeChange(const proto::ViewChange& change) {
  const uint32_t before = gate_.views().number();
  absl::Status taken = gate_.Take(change, Close(gate_.open_until()));
  if (!taken.ok()) return taken;
  const bool is_news = gate_.views().number() != before;
  if (is_news && (phase_ == Phase::kTraining || phase_ == Phase::kFinishing)) {
    ranks_.SendChange(change);
    memory_.header().view_number.store(change.number());
  }
  Close(gate_.open_until());
  return absl::OkStatus();
}

bool NodeTraining::ranks_await_view() const {
  for (uint32_t r = 0; r < leave_taken_.size(); ++r) {
    if (memory_.rank(r).awaits_view.load() != 0) return true;
  }
  return false;
}

std::string NodeTraining::PhaseText() const {
  if (stopped_ > 0) return "waiting for a ring without a node that was lost";
  return ranks_await_view() ? "waiting for a change of the job's nodes"
                            : PhaseName(exchange_->phase());
}

}  // namespace strata::worker

#include "worker/exchange/testing/reforming_nodes.h"

namespace strata::worker {

void ReformingNodes::Do(uint32_t node, const WireAction& action, CoreActions* next) {
  ReformingCore& core = *cores_[node];
  if (action.kind == WireAction::Kind::kConnect) {
    const std::string& address = core.address(action.link);
    for (uint32_t peer = 0; peer < cores_.size(); ++peer) {
      if (record_.ring().endpoints(static_cast<int>(peer)) != address) continue;
      if (cores_[peer] == nullptr) break;
      ends_.push_back({node});
      ends_.push_back({peer});
      core.OnConnected(action.link, transport::ConnectionId(ends_.size() - 2), kNow, &next->wire);
      return;
    }
    core.OnConnectFailed(action.link, absl::UnavailableError("gone"), kNow, &next->wire);
    return;
  }
  const uint64_t at = action.connection.value(), to = at ^ 1;
  if (action.kind == WireAction::Kind::kAdmit || !ends_[at].open) return;
  if (action.kind == WireAction::Kind::kClose) {
    ends_[at].open = false;
    on_the_way_.push_back([this, to] { Lost(to); });
    return;
  }
  const wire::Header& header = action.frame.header;
  const bool is_lost = lost_ && header.op == wire::Op::kGather && header.chunk == lost_->first &&
                       ends_[to].node == lost_->second;
  if (is_lost) return;
  on_the_way_.push_back([this, to, frame = action.frame] {
    const uint32_t peer = ends_[to].node;
    if (cores_[peer] == nullptr || !ends_[to].open) return;
    failures_[peer].Update(Call(peer, [&](CoreActions* actions) {
      return cores_[peer]->OnFrame(transport::ConnectionId(to), frame, kNow, actions);
    }));
  });
}

void ReformingNodes::Lost(uint64_t end) {
  const uint32_t node = ends_[end].node;
  if (cores_[node] == nullptr || !std::exchange(ends_[end].open, false)) return;
  EXPECT_TRUE(Call(node, [&](CoreActions* actions) {
                cores_[node]->OnLost(transport::ConnectionId(end), absl::UnavailableError("closed"),
                                     kNow, &actions->wire);
                return absl::OkStatus();
              }).ok());
}

absl::Status ReformingNodes::Do(uint32_t node, const NodeAction& action, CoreActions* next) {
  switch (action.kind) {
    case NodeAction::Kind::kFirstWeights:
      return cores_[node]->OnPayload(action, Floats(0.5), {}, kNow, next);
    case NodeAction::Kind::kSum:
      ++sums_[node];
      return cores_[node]->OnPayload(action, Floats(static_cast<float>(8 * (node + action.clock))),
                                     {.samples = 8}, kNow, next);
    case NodeAction::Kind::kDeliver:
      if (!action.weights.empty()) last_ = action.weights;  // slices may be empty
      if (!action.lands) break;
      made_[node].push_back(action);
      made_[node].back().weights = last_;
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

}  // namespace strata::worker

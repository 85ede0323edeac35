#include "worker/exchange/testing/exchange_world.h"

#include <algorithm>

namespace strata::worker {
namespace {

using transport::ConnectionId;

constexpr int kMovesMax = 1000000;

Bytes BytesOf(std::vector<float> floats) {
  auto owner = std::make_shared<std::vector<float>>(std::move(floats));
  return Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()),
               owner->size() * sizeof(float));
}

}  // namespace

ExchangeWorld::ExchangeWorld(uint32_t seed, const proto::JobRecord& record,
                             std::vector<SimulatedShard*> shards, WireFaults faults,
                             Gradient gradient, float first_weight)
    : random_(seed),
      map_(record.layout().elements(), record.placement().chunk_elements()),
      shards_(std::move(shards)),
      faults_(faults),
      gradient_(std::move(gradient)),
      first_weight_(first_weight) {
  for (const proto::LogicalNode& node : record.view().nodes()) {
    CoreOptions options;
    options.record = record;
    options.node = NodeId(node.node());
    // HELLO is lost too, again and again.
    if (faults.drop > 0) options.timing.give_up_after = absl::Hours(1);
    nodes_.push_back({.core = *ParameterServerCore::Create(options, kernels::Cpu()),
                      .clock = std::vector<uint64_t>(map_.chunks(), 0),
                      .weights = std::vector<std::vector<float>>(map_.chunks())});
  }
}

bool ExchangeWorld::Done() const {
  return std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.core->phase() == Exchange::Phase::kFinished;
  });
}

absl::Status ExchangeWorld::Run(uint64_t clocks) {
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    Act(n, [&](CoreActions* actions) { nodes_[n].core->Start(now_, actions); });
  }
  for (int moves = 0; moves < kMovesMax && status_.ok(); ++moves) {
    if (Done()) return absl::OkStatus();
    if (random_() % 2 == 0 && Publish(random_() % nodes_.size(), clocks)) continue;
    if (Move()) continue;
    bool published = false;
    for (uint32_t n = 0; n < nodes_.size() && !published; ++n) published = Publish(n, clocks);
    if (!published) PassTime();
  }
  return status_.ok() ? absl::DeadlineExceededError("the run does not end") : status_;
}

// Submits one chunk whose last answer is there, or finishes the node.
bool ExchangeWorld::Publish(uint32_t n, uint64_t clocks) {
  Node& node = nodes_[n];
  if (node.core->phase() != Exchange::Phase::kTraining) return false;
  bool all = true;
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const uint64_t clock = node.clock[c];
    all = all && clock == clocks;
    if (clock == clocks || (clock > 0 && node.deliveries.count({c, clock - 1}) == 0)) continue;
    ++node.clock[c];
    Act(n, [&](CoreActions* actions) { node.core->Submit(ChunkId(c), actions); });
    return true;
  }
  if (!all) return false;
  Act(n, [&](CoreActions* actions) { node.core->Finish(clocks, now_, actions); });
  return true;
}

void ExchangeWorld::Break(uint32_t id) {
  const Link link = std::move(links_[id]);
  links_.erase(id);
  shards_[link.shard]->OnDisconnected(ConnectionId(id));
  Act(link.node, [&](CoreActions* actions) {
    nodes_[link.node].core->OnLost(ConnectionId(id), absl::OkStatus(), now_, actions);
  });
}

// Moves one frame over one of the links.
bool ExchangeWorld::Move() {
  std::vector<std::pair<uint32_t, bool>> loaded;
  for (const auto& [id, link] : links_) {
    if (!link.up.empty()) loaded.push_back({id, true});
    if (!link.down.empty()) loaded.push_back({id, false});
  }
  if (loaded.empty()) return false;
  const auto [id, up] = loaded[random_() % loaded.size()];
  if (Chance(faults_.disconnect)) {
    Break(id);
    return true;
  }
  Link& link = links_[id];
  std::deque<wire::Frame>& queue = up ? link.up : link.down;
  const wire::Frame frame = queue.front();
  if (!Chance(faults_.duplicate)) queue.pop_front();
  if (Chance(faults_.drop)) return true;
  const ConnectionId connection(id);
  if (up) {
    for (SimulatedShard::Reply& reply : shards_[link.shard]->OnFrame(connection, frame)) {
      auto to = links_.find(static_cast<uint32_t>(reply.connection.value()));
      if (to != links_.end()) to->second.down.push_back(std::move(reply.frame));
    }
  } else {
    const uint32_t n = link.node;
    Act(n, [&](CoreActions* actions) {
      Keep(nodes_[n].core->OnFrame(connection, frame, now_, actions));
    });
  }
  return true;
}

void ExchangeWorld::PassTime() {
  absl::Time due = absl::InfiniteFuture();
  for (const Node& node : nodes_) due = std::min(due, node.core->deadline());
  now_ = std::max(now_, due);
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    Act(n, [&](CoreActions* actions) { Keep(nodes_[n].core->OnTime(now_, actions)); });
  }
}

void ExchangeWorld::Keep(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

template <typename Event>
void ExchangeWorld::Act(uint32_t n, Event event) {
  CoreActions actions;
  event(&actions);
  while (!actions.wire.empty() || !actions.node.empty()) {
    CoreActions now = std::exchange(actions, {});
    for (WireAction& action : now.wire) Do(n, &action, &actions);
    for (NodeAction& action : now.node) Do(n, action, &actions);
  }
}

void ExchangeWorld::Do(uint32_t n, WireAction* action, CoreActions* more) {
  ParameterServerCore& core = *nodes_[n].core;
  switch (action->kind) {
    case WireAction::Kind::kConnect: {
      if (away_) {
        core.OnConnectFailed(action->line, absl::UnavailableError("refused"), now_, more);
        break;
      }
      const uint32_t id = next_connection_++;
      links_[id] = Link{n, action->line.value() % static_cast<uint32_t>(shards_.size())};
      core.OnConnected(action->line, ConnectionId(id), now_, more);
      break;
    }
    case WireAction::Kind::kAdmit:
      break;
    case WireAction::Kind::kClose: {
      const auto id = static_cast<uint32_t>(action->connection.value());
      const auto link = links_.find(id);
      if (link == links_.end()) break;
      shards_[link->second.shard]->OnDisconnected(ConnectionId(id));
      links_.erase(link);
      break;
    }
    case WireAction::Kind::kSend: {
      auto link = links_.find(static_cast<uint32_t>(action->connection.value()));
      if (link != links_.end()) link->second.up.push_back(std::move(action->frame));
      break;
    }
  }
}

void ExchangeWorld::Do(uint32_t n, const NodeAction& action, CoreActions* more) {
  Node& node = nodes_[n];
  const uint32_t c = action.chunk.value();
  const size_t count = map_.ElementsOf(action.chunk);
  switch (action.kind) {
    case NodeAction::Kind::kFirstWeights:
      Keep(node.core->OnPayload(action, BytesOf(std::vector<float>(count, first_weight_)), 0, now_,
                                more));
      break;
    case NodeAction::Kind::kSum: {
      if (action.clock + 1 != node.clock[c]) {
        Keep(absl::InternalError("the sum of another clock was asked for"));
      }
      std::vector<float> sum(count);
      for (size_t i = 0; i < count; ++i) sum[i] = gradient_(n, action.chunk, action.clock, i);
      Keep(node.core->OnPayload(action, BytesOf(std::move(sum)), 8, now_, more));
      break;
    }
    case NodeAction::Kind::kDeliver:
      ++node.deliveries[{c, action.clock}];
      node.weights[c].assign(action.weights.floats(), action.weights.floats() + count);
      break;
    case NodeAction::Kind::kDeliverFinal:
      ++node.finals;
      node.weights[c].assign(action.weights.floats(), action.weights.floats() + count);
      break;
  }
}

}  // namespace strata::worker

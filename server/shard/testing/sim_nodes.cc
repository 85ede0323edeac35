#include "server/shard/testing/sim_nodes.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"

namespace strata::server {

void SimNodes::Tick(uint32_t id) {
  Node& node = nodes_[id];
  if (!node.connection || network_->random().Chance(0.02)) Reconnect(&node);
  const bool all_done =
      absl::c_all_of(node.chunks, [](const Chunk& c) { return c.clock == kClocks; });
  if (!node.greeted) {
    Send(&node, HelloFrame(record_, id));
  } else if (all_done && !node.retired) {
    Send(&node, ControlFrame(record_, Op::kRetire, id, 0, kClocks));
  } else {
    Say(id, static_cast<uint32_t>(network_->random().Below(kChunks)));
  }
  const absl::Duration pause =
      network_->random().Between(absl::Microseconds(50), absl::Microseconds(500));
  network_->After(pause, [this, id] { Tick(id); });
}

void SimNodes::Reconnect(Node* node) {
  if (node->connection) node->endpoint->Close(*node->connection);
  node->greeted = false;
  node->connection = *node->endpoint->Connect(node->address);
}
void SimNodes::Send(Node* node, wire::Frame frame) {
  frame.header.generation = node->generation;
  EXPECT_EQ(node->endpoint->Send(*node->connection, frame), absl::OkStatus());
}

void SimNodes::Say(uint32_t id, uint32_t chunk) {
  Chunk& state = nodes_[id].chunks[chunk];
  if (!state.seeded) {
    const std::vector<float> first(kElements, options_.counts ? 0.0f : 0.25f);
    return Send(&nodes_[id], InitFrame(record_, id, chunk, first));
  }
  if (nodes_[id].retired) {
    return Send(&nodes_[id], ControlFrame(record_, Op::kCut, id, chunk, kClocks));
  }
  const auto is_behind = [&](const Chunk& other) { return other.clock < state.clock; };
  if (state.clock == kClocks) return;
  if (options_.has_rounds && absl::c_any_of(nodes_[id].chunks, is_behind)) return;
  state.waiting = true;
  const uint64_t base = options_.has_rounds ? nodes_[id].round : state.base_version;
  Send(&nodes_[id],
       PushFrame(record_, id, chunk, state.clock, SumOf(id, chunk, state.clock), 1, base));
}

std::vector<float> SimNodes::SumOf(uint32_t node, uint32_t chunk, uint64_t clock) const {
  std::vector<float> sum(kElements, 0.0f);
  if (options_.counts) {
    sum[node * kClocks + clock] = -1.0f * options_.divisor;
    return sum;
  }
  for (uint32_t i = 0; i < kElements; ++i) {
    sum[i] = 0.01f * static_cast<float>((i * 31 + node * 17 + chunk * 5 + clock * 7) % 97);
  }
  return sum;
}

void SimNodes::TurnOfNode(uint32_t id) {
  Node& node = nodes_[id];
  std::vector<transport::Event> events;
  node.endpoint->Poll(absl::InfiniteDuration(), &events);
  for (const transport::Event& event : events) {
    if (event.connection != node.connection) continue;
    if (event.kind != transport::Event::Kind::kFrame) {
      node.connection.reset();
      node.greeted = false;
    } else if (event.frame.header.op == Op::kHelloOk) {
      node.greeted = true;
    } else {
      Deliver(event.frame, &node);
    }
  }
}

void SimNodes::BeginRound(Node* node) {
  uint64_t least = UINT64_MAX;
  for (const Chunk& chunk : node->chunks) {
    if (chunk.clock != node->chunks[0].clock) return;
    least = std::min(least, chunk.base_version);
  }
  node->round = least;
}

void SimNodes::Deliver(const wire::Frame& frame, Node* node) {
  const wire::Header& header = frame.header;
  Chunk& state = node->chunks[header.chunk];
  switch (header.op) {
    case Op::kInitOk:
      if (!std::exchange(state.seeded, true)) options_.on_confirmed();
      return;
    case Op::kAnswer:
      if (!state.waiting || header.clock != state.clock) return;
      state.waiting = false;
      ++state.clock;
      state.base_version = header.version;
      BeginRound(node);
      return options_.on_confirmed();
    case Op::kRetireOk:
      if (!std::exchange(node->retired, true)) options_.on_confirmed();
      return;
    case Op::kCutAnswer:
      if (state.final_weights.empty()) options_.on_confirmed();
      state.final_weights = ToFloats(frame);
      return;
    default:
      EXPECT_EQ(header.op, Op::kRetry);
  }
}

}  // namespace strata::server

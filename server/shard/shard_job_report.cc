// The part of ShardJob that tells how its nodes stand and what it holds.
#include <algorithm>
#include <vector>

#include "server/shard/shard_job.h"

namespace strata::server {
namespace {

// At a node's chunk, on average; some 10 ns each.
constexpr size_t kLooksPerReport = 1 << 19;

}  // namespace

std::vector<proto::NodeClock> ShardJob::NextNodeClocks() {
  if (reports_to_skip_ > 0) {
    --reports_to_skip_;
    return {};
  }
  reports_to_skip_ = nodes_.size() * plan_.chunks.size() / kLooksPerReport;
  return NodeClocks();
}

std::vector<proto::NodeClock> ShardJob::NodeClocks() const {
  if (plan_.chunks.empty()) return {};
  std::vector<proto::NodeClock> clocks(nodes_.size());
  for (size_t node = 0; node < nodes_.size(); ++node) {
    clocks[node].set_node(plan_.nodes[node].value());
    clocks[node].set_clock(kClockInfinity);
    clocks[node].set_connected(IsConnected(nodes_[node].lines));
  }
  for (const OwnChunk& chunk : plan_.chunks) {
    const ChunkState& state = *chunks_.at(chunk.id.value());
    for (size_t node = 0; node < nodes_.size(); ++node) {
      proto::NodeClock& clock = clocks[node];
      if (state.Received(node) < clock.clock()) {
        clock.set_clock(state.Received(node));
        clock.set_chunk(chunk.id.value());
        clock.set_retired(state.IsRetired(node));
      }
      if (state.IsWaiting(node)) clock.set_unanswered(clock.unanswered() + 1);
    }
  }
  return clocks;
}

uint64_t ShardJob::MemoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& [id, chunk] : chunks_) bytes += chunk->bytes();
  if (trace_.log() != nullptr) bytes += trace_.log()->memory_bytes();
  return bytes;
}

std::vector<transport::ConnectionId> ShardJob::Connections() const {
  std::vector<transport::ConnectionId> connections;
  for (const auto& [connection, binding] : bindings_) connections.push_back(connection);
  std::sort(connections.begin(), connections.end());
  return connections;
}

}  // namespace strata::server

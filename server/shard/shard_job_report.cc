// The part of ShardJob that tells how its nodes stand and what it holds.
#include <optional>
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
  reports_to_skip_ = plan_.nodes.size() * plan_.chunks.size() / kLooksPerReport;
  return NodeClocks();
}

std::vector<proto::NodeClock> ShardJob::NodeClocks() const {
  if (plan_.chunks.empty() || is_backup_) return {};  // no node speaks with a backup
  std::vector<proto::NodeClock> clocks(plan_.nodes.size());
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    clocks[node].set_node(plan_.nodes[node].value());
    clocks[node].set_clock(kClockInfinity);
    clocks[node].set_connected(connections_.IsConnected(node));
  }
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const ChunkState& state = *chunks_[chunk];
    for (size_t node = 0; node < plan_.nodes.size(); ++node) {
      proto::NodeClock& clock = clocks[node];
      if (state.Received(node) < clock.clock()) {
        clock.set_clock(state.Received(node));
        clock.set_chunk(plan_.chunks[chunk].id.value());
        clock.set_retired(state.IsRetired(node));
      }
      if (state.IsWaiting(node)) clock.set_unanswered(clock.unanswered() + 1);
    }
  }
  return clocks;
}

uint64_t ShardJob::MemoryBytes() const {
  uint64_t bytes = 0;
  for (const auto& chunk : chunks_) bytes += chunk->bytes();
  bytes += cuts_.bytes();
  if (backup_ != nullptr) bytes += backup_->bytes();
  if (next_) bytes += next_->line->bytes();
  bytes += collector_.bytes();
  if (trace_.log() != nullptr) bytes += trace_.log()->memory_bytes();
  return bytes;
}

size_t ShardJob::HeldSums(ChunkId chunk) const {
  const std::optional<size_t> index = gate_.IndexOf(chunk);
  return index ? chunks_[*index]->held() : 0;
}

ChunkState* ShardJob::FindChunk(ChunkId chunk) {
  const std::optional<size_t> index = gate_.IndexOf(chunk);
  return index ? chunks_[*index].get() : nullptr;
}

}  // namespace strata::server

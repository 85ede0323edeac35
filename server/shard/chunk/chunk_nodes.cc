#include "server/shard/chunk/chunk_nodes.h"

#include <algorithm>

#include "common/require.h"

namespace strata::server {

uint64_t ChunkNodes::Gate() const {
  uint64_t least = kClockInfinity;
  for (const NodeProgress& node : nodes_) {
    if (!node.retired) least = std::min(least, node.received);
  }
  return least;
}

uint64_t ChunkNodes::MinClock() const {
  uint64_t most = 0;
  for (const NodeProgress& node : nodes_) {
    // A node that joins may do so past the end of the job.
    if (node.joined_at > 0 && node.received == node.joined_at) continue;
    if (!node.retired) return Gate();
    most = std::max(most, node.received);
  }
  return most;
}

void ChunkNodes::Withdraw(size_t node, uint64_t clock) {
  STRATA_REQUIRE(nodes_[node].received == clock + 1);
  nodes_[node].received = clock;
  nodes_[node].waiting = false;
  nodes_[node].checksum = 0;
}

void ChunkNodes::Join(size_t node, uint64_t clock) {
  if (nodes_[node].joined_at >= clock) return;
  nodes_[node] = {.received = clock, .joined_at = clock};
}

bool ChunkNodes::IsNew(size_t node) const {
  const NodeProgress& progress = nodes_[node];
  if (progress.joined_at == 0) return false;
  return progress.received == progress.joined_at ||
         (progress.received == progress.joined_at + 1 && progress.waiting);
}

uint64_t ChunkNodes::AppliedBy(size_t node, uint64_t clock) const {
  const NodeProgress& progress = nodes_[node];
  if (progress.retired) return std::max(progress.received, clock);
  const bool has_pushed = progress.joined_at == 0 || progress.received > progress.joined_at;
  return has_pushed ? progress.received : std::min(progress.received, clock);
}

}  // namespace strata::server

// The part of ShardJob that sees to nodes which join and leave the job. One that leaves needs
// nothing here but its RETIRE.
#include <cstdint>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/shard/shard_job.h"

namespace strata::server {

absl::Status ShardJob::ChangeView(const proto::ViewChange& change) {
  Views changed = *plan_.views;
  if (absl::Status added = changed.Add(change); !added.ok()) return added;
  if (changed.number() == plan_.views->number()) return absl::OkStatus();
  if (absl::Status ahead = CheckAhead(change.at_clock()); !ahead.ok()) return ahead;
  *plan_.views = std::move(changed);
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) JoinAll(chunk);
  return absl::OkStatus();
}

absl::Status ShardJob::CheckAhead(uint64_t clock) const {
  for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    for (size_t node = 0; node < plan_.nodes.size(); ++node) {
      const ChunkState& state = *chunks_[chunk];
      if (state.IsRetired(node) || state.Received(node) <= clock) continue;
      return absl::FailedPreconditionError(
          absl::StrFormat("the job's nodes are to change at clock %d, but node %d has pushed chunk "
                          "%d of it already",
                          clock, plan_.nodes[node].value(), plan_.chunks[chunk].id.value()));
    }
  }
  return absl::OkStatus();
}

void ShardJob::JoinAll(size_t chunk) {
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    const uint64_t clock = plan_.views->JoinedAt(plan_.nodes[node]);
    if (clock > 0) chunks_[chunk]->Join(node, clock);
  }
}

}  // namespace strata::server

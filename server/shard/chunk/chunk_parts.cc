#include "server/shard/chunk/chunk_parts.h"

#include <algorithm>

#include "absl/strings/str_format.h"
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
    // A joining node may do so past the end of the job.
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

void ChunkCuts::OnClockOf(uint64_t clock, const ChunkNodes& nodes) {
  // Once all nodes have retired there is nothing to resume.
  if (every_ == 0 || clock < next_ || clock == kClockInfinity) return;
  std::vector<uint64_t> applied;
  for (size_t node = 0; node < nodes.size(); ++node)
    applied.push_back(nodes.AppliedBy(node, clock));
  CutUpTo(clock, applied);
}

void ChunkCuts::CutUpTo(uint64_t clock, const std::vector<uint64_t>& applied) {
  if (every_ == 0 || clock < next_) return;
  const WeightImage weights = weights_.Image();
  for (; next_ <= clock; next_ += every_) {
    images_.push_back({.clock = next_, .weights = weights, .applied = applied});
  }
}

void GivenWeights::GiveToAll(const numerics::WeightState& weights) {
  for (size_t node = 0; node < given_.size(); ++node) GiveTo(node, weights);
}

void GivenWeights::AddTo(ChunkCopy* copy) const {
  for (const WeightVersion& one : given_) {
    proto::CopiedVersion* const given = copy->head.add_given();
    given->set_version(one.version);
    given->set_weights(copy->Add(one.weights));
  }
}

void GivenWeights::Restore(ChunkCopyReader* reader) {
  const auto& given = reader->head().given();
  if (static_cast<size_t>(given.size()) != given_.size()) {
    return reader->Fail(
        absl::StrFormat("weights given to %d nodes, of %d", given.size(), given_.size()));
  }
  for (size_t node = 0; node < given_.size(); ++node) {
    const proto::CopiedVersion& one = given[static_cast<int>(node)];
    const Bytes weights = reader->SomeFloats(one.weights(), "given weights");
    if (reader->ok()) given_[node] = {one.version(), weights};
  }
}

size_t GivenWeights::bytes(const numerics::WeightState& newest) const {
  size_t bytes = 0;
  for (const WeightVersion& one : given_) {
    if (one.version != newest.version()) bytes += one.weights.size();
  }
  return bytes;
}

}  // namespace strata::server

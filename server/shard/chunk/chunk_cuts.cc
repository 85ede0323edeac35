#include "server/shard/chunk/chunk_cuts.h"

namespace strata::server {

void ChunkCuts::OnClockOf(uint64_t clock, const ChunkNodes& nodes) {
  // Once all nodes have retired there is nothing left to go on with.
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

}  // namespace strata::server

// The part of RingChecker that sees to nodes that are dropped.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "tests/sim/check/ring_checker.h"

namespace strata::sim {

const std::vector<uint32_t>& RingChecker::NodesAt(uint64_t clock) const {
  size_t ring = rings_.size() - 1;
  while (rings_[ring].from_clock > clock) --ring;
  return rings_[ring].nodes;
}

uint64_t RingChecker::LandedOf(uint32_t node) const {
  uint64_t least = progress_[0].landed[node];
  for (const Progress& chunk : progress_) least = std::min(least, chunk.landed[node]);
  return least;
}

// Steps that only nodes have made that are gone are made once more.
void RingChecker::OnRingFormed(const proto::FormRing& forming) {
  while (!rings_.empty() && rings_.back().from_clock >= forming.clock()) rings_.pop_back();
  Ring& ring = rings_.emplace_back();
  ring.from_clock = forming.clock();
  for (const proto::LogicalNode& node : record_.view().nodes()) {
    const auto& nodes = forming.nodes();
    if (std::find(nodes.begin(), nodes.end(), node.node()) == nodes.end()) continue;
    ring.nodes.push_back(node.node());
  }
  if (rings_.front().from_clock > 0) {
    return Violate("rings go on from each other", absl::StrFormat("from step %d on, with no ring "
                                                                  "before",
                                                                  forming.clock()));
  }
  const bool is_ahead = std::any_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
    return chunk.clocks.size() > forming.clock();
  });
  if (is_ahead) Begin();
}

void RingChecker::OnRingStopped(const proto::RingStopped& stopped) {
  const uint32_t node = stopped.node();
  const uint64_t clock = stopped.clock();
  if (dropped_.count(node) > 0) return;
  stopped_[node] = stopped.number();
  for (uint32_t c = 0; c < progress_.size(); ++c) {
    if (progress_[c].landed[node] == clock) continue;
    return Violate("a node says how far it is",
                   absl::StrFormat("node %d says %d steps, of chunk %d it has made %d", node, clock,
                                   c, progress_[c].landed[node]));
  }
  if (!stopped.is_over()) return;
  for (uint32_t n = 0; n < plan_.nodes; ++n) {
    if (dropped_.count(n) > 0 || LandedOf(n) == plan_.clocks) continue;
    return Violate("nobody ends before all have made all steps",
                   absl::StrFormat("node %d knows that all have; node %d has made %d of %d", node,
                                   n, LandedOf(n), plan_.clocks));
  }
}

void RingChecker::OnRingTaken(uint32_t node, const proto::FormRing& forming) {
  const auto waits = stopped_.find(node);
  if (waits != stopped_.end() && waits->second > forming.change().number()) return;
  stopped_.erase(node);
  if (dropped_.count(node) > 0) return;
  const uint64_t made = LandedOf(node), lacks = forming.some_lack() ? 1 : 0;
  if (made <= forming.clock() && made + lacks >= forming.clock()) return;
  Violate("a ring goes on where its nodes are",
          absl::StrFormat("ring %d is to go on from step %d: node %d has made %d",
                          forming.change().number(), forming.clock(), node, made));
}

void RingChecker::OnNodeFinished(uint32_t node) {
  if (!plan_.drops_lost || dropped_.count(node) > 0) return;
  for (uint32_t n = 0; n < plan_.nodes; ++n) {
    if (dropped_.count(n) > 0 || LandedOf(n) == plan_.clocks) continue;
    return Violate("nobody ends before all have made all steps",
                   absl::StrFormat("node %d has ended, node %d has made %d of %d", node, n,
                                   LandedOf(n), plan_.clocks));
  }
}

}  // namespace strata::sim

// The part of JobChecker that counts: the mark that each push has left in the weights, the rate
// that it says, how far it is ahead, the sums that a shard holds, and the pushes that it has
// applied.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "tests/sim/check/checker.h"

namespace strata::sim {

// Damping makes the mark of a push smaller; the shard's own count of versions is not asked.
void JobChecker::Mark(Chunk* chunk, const wire::Header& push) {
  const uint64_t behind = chunk->version - push.base_version;
  if (!per_clock()) ++chunk->version;
  const bool damped =
      consistency_.has_async() && consistency_.async().damping() == proto::Async::INVERSE_STALENESS;
  if (!damped || behind < 2 || chunk->ledger == 0) return;
  const proto::LogicalNode& node = record_.view().nodes(static_cast<int>(push.node));
  for (uint32_t rank = node.first_rank(); rank < node.first_rank() + node.ranks(); ++rank) {
    chunk->marks[rank * plan_.clocks + push.clock] = static_cast<float>(1.0 / behind);
  }
}

float JobChecker::CheckedRate(const wire::Header& push) {
  const float rate = plan_.says_rates ? SaidRate(layers_.LastStepOf(push.clock)) : 0;
  if (push.rate != rate) {
    Violate("pushes say the rate of their step",
            absl::StrFormat("node %d chunk %d clock %d: %g, not %g", push.node, push.chunk,
                            push.clock, push.rate, rate));
  }
  return rate;
}

void JobChecker::CheckLedger(const Chunk& chunk, const wire::Frame& frame) {
  const uint64_t gate = Gate(chunk);
  for (const proto::LogicalNode& node : record_.view().nodes()) {
    const uint64_t received = chunk.received[node.node()];
    const uint64_t applied = per_clock() ? std::min(gate, received) : received;
    for (uint32_t rank = node.first_rank(); rank < node.first_rank() + node.ranks(); ++rank) {
      for (uint64_t clock = 0; clock < plan_.clocks; ++clock) {
        const uint64_t element = rank * plan_.clocks + clock;
        const bool counts = clock < applied && views_.Has(NodeId(node.node()), clock);
        const float expected = counts ? chunk.marks[element] : 0.0f;
        const float found = frame.payload.floats()[element];
        if (found == expected) continue;
        // Of any number of samples, the reciprocal may be rounded.
        if (plan_.is_elastic() && std::abs(found - expected) < 1e-5f) continue;
        return Violate("G1 exactly once",
                       absl::StrFormat("chunk %d: rank %d's gradient of clock %d counts %g, not %g",
                                       frame.header.chunk, rank, clock, found, expected));
      }
    }
  }
}

// Counted from what the shard has really received.
void JobChecker::CheckBound(const Chunk& chunk, const wire::Header& answer) {
  if (!gated() || has_quorum()) return;
  const uint64_t gate = Gate(chunk);
  if (gate >= answer.clock + 1 || answer.clock + 1 - gate <= bound()) return;
  Violate("G3 staleness bound",
          absl::StrFormat("node %d chunk %d: push %d was answered when the slowest had pushed %d",
                          answer.node, answer.chunk, answer.clock, gate));
}

// What waits for its clock to complete: less than every node's window, for the lowest chunk that is
// held in a reserved slot has been pushed by all nodes that hold a higher one in theirs. Lazy, also
// what was answered before its clock was complete. Of a chunk's clock, a part for every second
// node. With a quorum nodes are in different steps, so that no chunk is the lowest of all; and
// those who were not in a chunk's last clock may be late for this one.
void JobChecker::CheckHeld(uint32_t shard, Chunk* chunk, size_t held) {
  held_[shard] += held - chunk->held;
  chunk->held = held;
  const uint64_t parts = nodes_ > 1 ? (nodes_ + 1) / 2 : 0;
  const bool reserves = reserve_ == worker::PushWindow::Reserve::kLowest && !has_quorum();
  const uint64_t saved = reserves ? 1 : 0;
  const uint64_t windows = nodes_ * uint64_t{plan_.window} * (1 + restarts_) - saved;
  const uint64_t one_clock = per_clock() ? parts * chunks_on_[shard] : 0;
  const uint64_t late =
      has_quorum() ? nodes_ - consistency_.lazy().quorum().nodes() + restarts_ : 0;
  const uint64_t limit =
      std::min(windows, one_clock) + bound() * one_clock + late * chunks_on_[shard];
  if (held_[shard] <= limit) return;
  Violate("window memory",
          absl::StrFormat("shard %d holds %d sums, at most %d", shard, held_[shard], limit),
          /*goes_on=*/true);
}

void JobChecker::OnRemove(const Copy& copy, const server::ShardCounters& counters) {
  const uint32_t shard = copy.shard;
  if (copies_[shard].primary != copy.process) return;
  uint64_t pushes = nodes_ * layers_.rounds();
  if (plan_.is_elastic()) {
    pushes = views_.RankStepsBefore(plan_.clocks) / plan_.ranks_per_node;
  }
  const uint64_t expected = pushes * chunks_on_[shard];
  if (counters.pushes == expected) return;
  Violate("G1 exactly once", absl::StrFormat("shard %d has applied %d pushes, not %d", shard,
                                             counters.pushes, expected));
}

}  // namespace strata::sim

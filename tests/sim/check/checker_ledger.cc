// The part of JobChecker that reads, in the weights, the mark that each push has left, and the rate
// that it says.
#include <algorithm>

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
        const float expected = clock < applied ? chunk.marks[element] : 0.0f;
        const float found = frame.payload.floats()[element];
        if (found == expected) continue;
        return Violate("G1 exactly once",
                       absl::StrFormat("chunk %d: rank %d's gradient of clock %d counts %g, not %g",
                                       frame.header.chunk, rank, clock, found, expected));
      }
    }
  }
}

}  // namespace strata::sim

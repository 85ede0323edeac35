// The part of JobChecker that knows of nodes that come and go: one view of each clock, for all
// chunks and copies.
#include <algorithm>
#include <cstring>
#include <map>

#include "absl/strings/str_format.h"
#include "tests/sim/check/checker.h"

namespace strata::sim {

void JobChecker::OnChangeDecided(const proto::ViewChange& change) {
  const uint64_t at = change.at_clock();
  for (uint32_t c = 0; c < chunks_.size(); ++c) {
    for (uint32_t n = 0; n < nodes_; ++n) {
      if (chunks_[c].retired[n] || chunks_[c].received[n] <= at) continue;
      return Violate("nobody has begun a clock that gets other nodes",
                     absl::StrFormat("node %d has pushed clock %d of chunk %d, change %d is at %d",
                                     n, chunks_[c].received[n] - 1, c, change.number(), at));
    }
  }
  if (const absl::Status added = views_.Add(change); !added.ok()) {
    return Violate("each clock has one view", std::string(added.message()));
  }
  for (Chunk& chunk : chunks_) {
    if (chunk.reference) chunk.reference->OnChange(change);
    for (const uint32_t node : change.joined()) {
      chunk.received[node] = chunk.due[node] = chunk.taken_over[node] = at;
      chunk.pushed_by[node] = 0;
      chunk.retired[node] = false;
      chunk.cuts.erase(node);
    }
    Remember(&chunk);
  }
  for (std::vector<bool>& retired : retired_) {
    for (const uint32_t node : change.joined()) retired[node] = false;
  }
}

void JobChecker::CheckTakesPart(const wire::Header& push) {
  if (views_.Has(NodeId(push.node), push.clock)) return;
  Violate("each clock has the pushes of its nodes",
          absl::StrFormat("node %d chunk %d clock %d: it takes no part", push.node, push.chunk,
                          push.clock));
}

void JobChecker::CheckPulled(const wire::Frame& frame) {
  const wire::Header& pulled = frame.header;
  if ((pulled.flags & wire::kFlagEmpty) != 0 || codecs_.encodes_answers()) return;
  const Chunk& chunk = chunks_[pulled.chunk];
  if (!chunk.reference || chunk.reference->keeps_bases()) return;
  const auto past = chunk.past.find(pulled.version);
  if (past == chunk.past.end()) {
    return Violate("nodes learn of nothing that the backup does not have", wire::Describe(pulled));
  }
  const bool makes_it = views_.Has(NodeId(pulled.node), pulled.clock);
  if (is_exact() && makes_it && pulled.version != pulled.clock) {
    return Violate("who joins begins with the weights of its clock", wire::Describe(pulled));
  }
  const std::vector<float>& weights = past->second.weights;
  const bool is_same = frame.payload.float_count() == weights.size() &&
                       std::memcmp(frame.payload.data(), weights.data(), frame.payload.size()) == 0;
  if (!is_same) Violate("G2 order of bits", wire::Describe(pulled) + ": other weights");
}

void JobChecker::CheckEndOfElastic() {
  for (uint32_t n = 0; n < nodes_; ++n) {
    const NodeId node(n);
    const bool stays = views_.Has(node, plan_.clocks - 1);
    const uint64_t end = stays ? plan_.clocks : views_.LeavesAt(node).value_or(0);
    for (uint32_t c = 0; c < chunks_.size(); ++c) {
      const Chunk& chunk = chunks_[c];
      if (chunk.received[n] != end) {
        return Violate("G1 exactly once", absl::StrFormat("chunk %d: %d pushes of node %d, not %d",
                                                          c, chunk.received[n], n, end));
      }
      if (!views_.HasEver(node)) continue;
      const bool has_last = !stays || processes_[n].finals.count(c) == 1;
      if (processes_[n].answered[c] == end && has_last) continue;
      return Violate("exactly one delivery",
                     absl::StrFormat("node %d chunk %d: %d answers, not %d, or no final weights", n,
                                     c, processes_[n].answered[c], end));
    }
  }
  for (uint32_t c = 0; is_exact() && c < chunks_.size(); ++c) CheckPlainSum(c);
}

// In another order than the job's: clock by clock, and in each the nodes in theirs.
void JobChecker::CheckPlainSum(uint32_t c) {
  const ChunkId id(c);
  const uint32_t elements = chunks_[c].elements;
  ReferenceChunk plain(record_, id, chunks_[c].past.at(0).weights);
  std::vector<std::vector<float>> gradients(plan_.ranks_per_node, std::vector<float>(elements));
  std::vector<absl::Span<const float>> ranks(gradients.begin(), gradients.end());
  auto change = views_.changes().begin();
  for (uint64_t clock = 0; clock < plan_.clocks; ++clock) {
    for (; change != views_.changes().end() && change->at_clock() == clock; ++change) {
      plain.OnChange(*change);
      for (const uint32_t left : change->left()) plain.OnRetire(left);
    }
    for (const NodeId node : views_.NodesAt(clock)) {
      const uint32_t first_rank = record_.view().nodes(static_cast<int>(node.value())).first_rank();
      for (uint32_t r = 0; r < plan_.ranks_per_node; ++r) {
        payload_.Gradient(first_rank + r, id, clock, plan_.ranks_per_node, 0, elements,
                          gradients[r].data(), views_.RanksAt(clock));
      }
      plain.OnPush({.node = node.value(),
                    .clock = clock,
                    .base_version = plain.version(),
                    .samples = plan_.ranks_per_node,
                    .sum = ReferenceNodeSum(ranks)});
    }
  }
  if (plain.violation().empty() &&
      Hash(absl::MakeConstSpan(plain.weights())) == chunks_[c].final_hash)
    return;
  Violate("the weights are a plain sum over the nodes of each clock",
          absl::StrFormat("chunk %d: %s", c, plain.violation()));
}

}  // namespace strata::sim

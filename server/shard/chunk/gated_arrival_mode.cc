// lazy(s, on arrival): each push is applied on arrival, and its answer waits for the slowest node.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "common/job/consistency.h"
#include "common/job/job.h"
#include "server/shard/chunk/chunk_parts.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {
namespace {

struct ArrivalRules {
  NodeRanks ranks;
  uint32_t batch_per_rank = 0;  // 0: known only from the pushes (programs)
  bool pushes_changes = false;  // changes of nodes' weights over local steps, instead of gradients
};

class GatedArrivalChunk final : public ChunkMode {
 public:
  // `rules` outlives it.
  GatedArrivalChunk(const ChunkParts& chunk, StalenessGate gate, const ArrivalRules& rules)
      : chunk_(chunk), gate_(gate), rules_(rules) {}

  PushResult Take(const Push& push, Addend sum, std::vector<DueAnswer>* due) override {
    if (push.samples == 0) {
      chunk_.weights.Skip();
    } else {
      const double samples = push.samples;
      // The share scales the rate, not the gradient: weight decay and Adam's step, which do not
      // scale with the gradient, then also count once per clock.
      chunk_.weights.Apply(sum.Decoded(chunk_.pool), static_cast<float>(1.0 / samples),
                           push.samples, {.said = push.rate, .damping = ShareOfClock(push)});
    }
    return {};
  }

  bool MayAnswer(size_t node, uint64_t gate) const override {
    return gate_.MayAnswer(chunk_.nodes[node].received - 1, gate);
  }
  uint32_t StalenessOf(size_t node, uint64_t gate) const override {
    return gate_.StalenessOf(chunk_.nodes[node].received - 1, gate);
  }

 private:
  double ShareOfClock(const Push& push) const {
    const NodeRanks& ranks = rules_.ranks;
    if (!rules_.pushes_changes) {
      return ranks.ShareOfClock(push.node, push.clock, push.samples, rules_.batch_per_rank);
    }
    return static_cast<double>(ranks.of_node[push.node]) / ranks.At(push.clock);
  }

  const ChunkParts chunk_;
  const StalenessGate gate_;
  const ArrivalRules& rules_;
};

class GatedArrivalMode final : public ConsistencyMode {
 public:
  GatedArrivalMode(StalenessGate gate, ArrivalRules rules)
      : gate_(gate), rules_(std::move(rules)) {}

  bool applies_on_arrival() const override { return true; }

  std::unique_ptr<ChunkMode> CreateForChunk(const ChunkParts& chunk) const override {
    return std::make_unique<GatedArrivalChunk>(chunk, gate_, rules_);
  }

 private:
  const StalenessGate gate_;
  const ArrivalRules rules_;
};

}  // namespace

std::unique_ptr<ConsistencyMode> CreateGatedArrivalMode(const proto::Job& job,
                                                        const NodeRanks& ranks) {
  return std::make_unique<GatedArrivalMode>(StalenessGate(job.consistency().lazy().staleness()),
                                            ArrivalRules{.ranks = ranks,
                                                         .batch_per_rank = SamplesPerRank(job),
                                                         .pushes_changes = HasLocalSteps(job)});
}

}  // namespace strata::server

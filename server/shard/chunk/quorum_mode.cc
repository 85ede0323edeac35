// lazy(0, quorum): pushes are summed in the chunk's open clock, which some of the nodes close.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/shard/chunk/consistency_modes.h"
#include "server/shard/chunk/quorum_clock.h"

namespace strata::server {
namespace {

struct QuorumRules {
  uint32_t nodes = 0;    // number of nodes that close a clock
  absl::Duration grace;  // additional time for the other nodes
};

// The chunk has one open clock, whose number is the version of the weights. A push computed for it
// (base_version) waits in it; one of an earlier clock joins it too, but is answered at once. The
// clock closes when the quorum waits in it (or all nodes that have not retired, if they are fewer)
// and either the grace is over or all others have pushed. Late nodes must not wait: chunks have
// different quorums, and nodes could wait for each other in a circle. So a process that replaces
// one whose push waits does not wait, either.
class QuorumChunk final : public ChunkMode {
 public:
  QuorumChunk(const ChunkParts& chunk, const QuorumRules& rules)
      : chunk_(chunk),
        rules_(rules),
        clock_(chunk.kernels, chunk.pool, chunk.nodes.size(), chunk.weights.elements()),
        held_(chunk.nodes.size(), false) {}

  PushResult Take(const Push& push, Addend sum, std::vector<DueAnswer>* due) override {
    const bool in_time = push.base_version == chunk_.weights.version();
    held_[push.node] = in_time;
    // The previous process's push may be in the same clock.
    if (in_time && !clock_.Waits(push.node)) {
      clock_.Join(push.node, std::move(sum), {push.samples, push.rate});
    } else {
      clock_.JoinLate(push.node, std::move(sum), {push.samples, push.rate});
    }
    CloseIfOver(push.came_at);
    return {};
  }

  void OnRetire(absl::Time now, std::vector<DueAnswer>* due) override { CloseIfOver(now); }

  bool MayAnswer(size_t node, uint64_t gate) const override { return !held_[node]; }
  uint32_t StalenessOf(size_t node, uint64_t gate) const override {
    return chunk_.nodes[node].versions_behind;
  }
  bool StopWaiting(size_t node) override {
    const bool was_held = held_[node];
    held_[node] = false;
    return was_held;
  }

  absl::Time deadline() const override { return closes_at_; }
  void OnTime(absl::Time now) override { CloseIfOver(now); }

  void AddTo(ChunkCopy* copy) override {
    clock_.AddTo(copy);
    proto::CopiedQuorum* const quorum = copy->head.mutable_quorum();
    for (size_t node = 0; node < held_.size(); ++node) {
      quorum->mutable_nodes(static_cast<int>(node))->set_held(held_[node]);
    }
    if (closes_at_ == absl::InfiniteFuture()) return;
    quorum->set_closes_at(static_cast<uint64_t>(absl::ToUnixNanos(closes_at_)));
  }
  void Restore(ChunkCopyReader* reader) override {
    clock_.Restore(reader);
    if (!reader->ok()) return;
    const proto::CopiedQuorum& quorum = reader->head().quorum();
    for (size_t node = 0; node < held_.size(); ++node) {
      held_[node] = quorum.nodes(static_cast<int>(node)).held();
    }
    if (quorum.closes_at() == 0) return;
    closes_at_ = absl::FromUnixNanos(static_cast<int64_t>(quorum.closes_at()));
  }

  size_t held() const override { return clock_.held(); }
  size_t bytes() const override { return clock_.held_bytes(); }

 private:
  // Pushes that were late in the last clock wait for nobody: it closes when all have retired.
  void CloseIfOver(absl::Time now) {
    if (clock_.empty()) return;
    size_t live = 0, missing = 0;
    for (size_t node = 0; node < chunk_.nodes.size(); ++node) {
      if (chunk_.nodes[node].retired) continue;
      ++live;
      if (!clock_.Holds(node)) ++missing;
    }
    if (clock_.waiting() < std::min<size_t>(rules_.nodes, live)) return;
    if (missing > 0) {
      if (closes_at_ == absl::InfiniteFuture()) closes_at_ = now + rules_.grace;
      if (now < closes_at_) return;
    }
    closes_at_ = absl::InfiniteFuture();
    std::fill(held_.begin(), held_.end(), false);
    const uint64_t samples = clock_.samples();
    const double rate = clock_.MeanRate();
    ApplyClock(chunk_, clock_.Close(), samples, rate);
    // By the slowest node, not by updates: all nodes resume at a clock that they have reached.
    // Pushes that were late in the last clock are in the weights only once all have retired.
    chunk_.cuts.OnClockOf(chunk_.nodes.MinClock(), chunk_.nodes);
  }

  const ChunkParts chunk_;
  const QuorumRules rules_;
  QuorumClock clock_;
  std::vector<bool> held_;  // by node: its push waits for the open clock to close
  absl::Time closes_at_ = absl::InfiniteFuture();
};

class QuorumMode final : public ConsistencyMode {
 public:
  explicit QuorumMode(QuorumRules rules) : rules_(rules) {}

  void AddHeldSums(const ShardSize& size, MemoryFormula* need) const override {
    if (size.nodes == 1) return;
    AddWaitingPushes(size, HeldMax(proto::Addition::TREE, size.nodes), 0, need);
    if (rules_.nodes >= size.nodes) return;
    const uint64_t late = size.nodes - rules_.nodes;
    need->Add(absl::StrFormat("late pushes %d x %s", late, BytesText(size.own_bytes)),
              SaturatingProduct(late, size.own_bytes));
    need->Add("late push in addition", size.chunk_bytes);
  }

  std::unique_ptr<ChunkMode> CreateForChunk(const ChunkParts& chunk) const override {
    return std::make_unique<QuorumChunk>(chunk, rules_);
  }

 private:
  const QuorumRules rules_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConsistencyMode>> CreateQuorumMode(const proto::Job& job,
                                                                  const NodeRanks& ranks) {
  const proto::Quorum& quorum = job.consistency().lazy().quorum();
  if (quorum.nodes() > ranks.of_node.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("consistency.lazy.quorum.nodes: %d, but the job has %d nodes",
                        quorum.nodes(), ranks.of_node.size()));
  }
  return std::make_unique<QuorumMode>(
      QuorumRules{.nodes = quorum.nodes(), .grace = absl::Milliseconds(quorum.grace_ms())});
}

}  // namespace strata::server

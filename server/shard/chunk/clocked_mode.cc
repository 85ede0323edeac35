// sync and lazy(s): pushes are summed per clock, and a clock is applied when all nodes' pushes have
// come.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/shard/chunk/chunk_parts.h"
#include "server/shard/chunk/consistency_modes.h"

namespace strata::server {
namespace {

using Order = proto::Addition::Order;

// Returns whether a sum is empty or has only zeros of either sign, like that of a node without
// samples.
bool IsZero(const Bytes& sum) {
  return std::all_of(sum.floats(), sum.floats() + sum.float_count(),
                     [](float x) { return x == 0; });
}

// A node has at most one unanswered push per chunk (pipeline depth 0), so at most staleness bound +
// 1 clocks are incomplete at a time.
class ClockedChunk final : public ChunkMode {
 public:
  ClockedChunk(const ChunkParts& chunk, StalenessGate gate, Order order)
      : chunk_(chunk), gate_(gate), order_(order) {}

  // The update of a clock has one rate, on which all nodes agree. What a lossy codec still owes may
  // come in a push without samples.
  PushResult Check(const Push& push) const override {
    if (push.samples == 0 && push.codec == wire::Codec::kNone && !IsZero(push.sum)) {
      return RefusePush(wire::ErrorCode::kMalformed, "sample_count is 0, but the sum is not");
    }
    const auto open = open_.find(push.clock);
    if (open == open_.end() || open->second.rate == push.rate) return {};
    return RefusePush(wire::ErrorCode::kConflict,
                      absl::StrFormat("node %d says learning rate %.9g, node %d %.9g", push.node,
                                      push.rate, open->second.said_by, open->second.rate));
  }

  PushResult Take(const Push& push, Addend sum, std::vector<DueAnswer>* due) override {
    OpenClock& clock = open_[push.clock];
    if (clock.sum == nullptr) {
      clock.sum = NewSum();
      clock.rate = push.rate;
      clock.said_by = push.node;
    }
    clock.samples += push.samples;
    Withdraw(push.clock, clock.sum->Add(push.node, std::move(sum)), due);
    ApplyCompleteClocks(due);
    const size_t own = std::erase_if(*due, [&](const DueAnswer& answer) {
      return answer.op == wire::Op::kError && answer.node == push.node;
    });
    return own == 0 ? PushResult() : RefusePush(wire::ErrorCode::kNotFinite, kNotFiniteText);
  }

  void OnRetire(absl::Time now, std::vector<DueAnswer>* due) override { ApplyCompleteClocks(due); }

  void Follow(const ClockSum& clock) override { Apply(clock); }

  bool MayAnswer(size_t node, uint64_t gate) const override {
    return gate_.MayAnswer(chunk_.nodes[node].received - 1, gate);
  }
  uint32_t StalenessOf(size_t node, uint64_t gate) const override {
    return gate_.StalenessOf(chunk_.nodes[node].received - 1, gate);
  }

  void AddTo(ChunkCopy* copy) override {
    for (auto& [number, open] : open_) {
      proto::CopiedClock* const clock = copy->head.add_clocks();
      clock->set_clock(number);
      clock->set_samples(open.samples);
      clock->set_rate(open.rate);
      clock->set_said_by(static_cast<uint32_t>(open.said_by));
      copy->Add(open.sum->Parts(), clock->mutable_parts());
    }
  }
  void Restore(ChunkCopyReader* reader) override {
    for (const proto::CopiedClock& copied : reader->head().clocks()) {
      OpenClock& clock = open_[copied.clock()];
      if (clock.sum != nullptr) return reader->Fail("a clock is there twice");
      clock = {NewSum(), copied.samples(), copied.rate(), copied.said_by()};
      std::vector<SumPart> parts = reader->Parts(copied.parts());
      for (const SumPart& part : parts) {
        for (size_t node = part.begin; node < part.end && node < chunk_.nodes.size(); ++node) {
          if (chunk_.nodes[node].received <= copied.clock()) {
            return reader->Fail(absl::StrFormat("clock %d has a push of node %d, which is at %d",
                                                copied.clock(), node, chunk_.nodes[node].received));
          }
        }
      }
      reader->Fail(clock.sum->Restore(std::move(parts)));
    }
  }

  size_t held() const override {
    size_t held = 0;
    for (const auto& [clock, open] : open_) held += open.sum->held();
    return held;
  }
  size_t bytes() const override {
    size_t bytes = 0;
    for (const auto& [clock, open] : open_) bytes += open.sum->held_bytes();
    return bytes;
  }

 private:
  struct OpenClock {
    std::unique_ptr<Accumulator> sum;
    uint64_t samples = 0;
    float rate = 0;
    size_t said_by = 0;  // the node that gave the rate
  };

  std::unique_ptr<Accumulator> NewSum() const {
    return CreateAccumulator(order_, chunk_.kernels, chunk_.pool, chunk_.nodes.size(),
                             chunk_.weights.elements());
  }

  void Apply(const ClockSum& clock) {
    ApplyClock(chunk_, clock.sum, clock.samples, clock.rate);
    chunk_.sums.OnApplied(clock);
    chunk_.cuts.OnClock(chunk_.weights.version());
  }

  // Pushes of these nodes at `clock` no longer count.
  void Withdraw(uint64_t clock, const std::vector<size_t>& nodes, std::vector<DueAnswer>* due) {
    for (const size_t node : nodes) {
      open_.at(clock).samples -= chunk_.nodes[node].samples;
      chunk_.nodes.Withdraw(node, clock);
      due->push_back({.op = wire::Op::kError, .node = node, .clock = clock});
    }
  }

  // Clocks complete in order, because each node's pushes are contiguous.
  void ApplyCompleteClocks(std::vector<DueAnswer>* due) {
    uint64_t gate = chunk_.nodes.Gate();
    while (!open_.empty() && open_.begin()->first < gate) {
      OpenClock& clock = open_.begin()->second;
      if (const std::vector<size_t> bad = clock.sum->Check(); !bad.empty()) {
        Withdraw(open_.begin()->first, bad, due);
        gate = chunk_.nodes.Gate();
        continue;
      }
      Apply({open_.begin()->first, clock.sum->Finish(), clock.samples, clock.rate});
      open_.erase(open_.begin());
    }
  }

  const ChunkParts chunk_;
  const StalenessGate gate_;
  const Order order_;
  std::map<uint64_t, OpenClock> open_;  // by clock
};

class ClockedMode final : public ConsistencyMode {
 public:
  ClockedMode(StalenessGate gate, Order order) : gate_(gate), order_(order) {}

  bool answers_alike() const override { return gate_.bound() == 0; }

  void AddHeldSums(const ShardSize& size, MemoryFormula* need) const override {
    if (size.nodes == 1) return;
    const uint64_t leaves = HeldMax(order_, size.nodes);
    // The lowest incomplete chunk lacks a node's push.
    AddWaitingPushes(size, leaves, 1, need);
    if (gate_.bound() == 0) return;
    need->Add(absl::StrFormat("clocks ahead %d x %d x %s", gate_.bound(), leaves,
                              BytesText(size.own_bytes)),
              SaturatingProduct(SaturatingProduct(gate_.bound(), leaves), size.own_bytes));
  }

  std::unique_ptr<ChunkMode> CreateForChunk(const ChunkParts& chunk) const override {
    return std::make_unique<ClockedChunk>(chunk, gate_, order_);
  }

 private:
  const StalenessGate gate_;
  const Order order_;
};

}  // namespace

std::unique_ptr<ConsistencyMode> CreateClockedMode(const proto::Job& job, const NodeRanks& ranks) {
  return std::make_unique<ClockedMode>(StalenessGate(job.consistency().lazy().staleness()),
                                       job.order());
}

}  // namespace strata::server

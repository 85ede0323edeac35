// async: each push is applied by itself when it comes, and answered at once.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "server/shard/chunk/consistency_modes.h"
#include "server/shard/chunk/delay_compensator.h"

namespace strata::server {
namespace {

struct AsyncRules {
  bool damps = false;  // divides the rate by the staleness
  std::optional<DelayCompensation> compensation;
};

class AsyncChunk final : public ChunkMode {
 public:
  AsyncChunk(const ChunkParts& chunk, const AsyncRules& rules)
      : chunk_(chunk), damps_(rules.damps) {
    if (rules.compensation) compensator_.emplace(chunk, *rules.compensation);
  }

  void OnSeed() override {
    if (compensator_) compensator_->OnSeed();
  }

  PushResult Check(const Push& push) const override {
    // One that joins was given weights that are not kept: its first push is taken as it is.
    if (!compensator_ || chunk_.nodes.IsNew(push.node)) return {};
    const uint64_t given = compensator_->GivenTo(push.node).version;
    if (push.base_version == given) return {};
    return RefusePush(
        wire::ErrorCode::kBeyondWindow,
        absl::StrFormat("base_version %d, it was given %d", push.base_version, given));
  }

  PushResult Take(const Push& push, Addend sum, std::vector<DueAnswer>* due) override {
    if (push.samples == 0) {
      chunk_.weights.Skip();
      return {};
    }
    if (compensator_ && chunk_.nodes.IsNew(push.node)) compensator_->OnAnswered(push.node);
    Bytes gradient = sum.Decoded(chunk_.pool);
    auto scale = static_cast<float>(1.0 / static_cast<double>(push.samples));
    if (compensator_ && !gradient.empty()) {
      gradient = compensator_->Correct(push, gradient);
      scale = 1.0f;
    }
    chunk_.weights.Apply(gradient, scale, push.samples,
                         {.said = push.rate, .damping = Damping(push.node)});
    return {};
  }

  bool MayAnswer(size_t node, uint64_t gate) const override { return true; }
  uint32_t StalenessOf(size_t node, uint64_t gate) const override {
    return chunk_.nodes[node].versions_behind;
  }
  void OnAnswered(size_t node) override {
    if (compensator_) compensator_->OnAnswered(node);
  }
  const WeightVersion* GivenTo(size_t node) const override {
    return compensator_ ? &compensator_->GivenTo(node) : nullptr;
  }

  Bytes MeanSquare() const override { return compensator_ ? compensator_->MeanSquare() : Bytes(); }
  void RestoreMeanSquare(const Bytes& mean_square) override {
    if (compensator_) compensator_->RestoreMeanSquare(mean_square);
  }

  void AddTo(ChunkCopy* copy) override {
    if (compensator_) compensator_->AddTo(copy);
  }
  void Restore(ChunkCopyReader* reader) override {
    if (compensator_) compensator_->Restore(reader);
  }

  size_t bytes() const override { return compensator_ ? compensator_->bytes() : 0; }

 private:
  // Factor of the learning rate for the node's last push.
  double Damping(size_t node) const {
    const uint32_t versions_behind = chunk_.nodes[node].versions_behind;
    return damps_ && versions_behind > 1 ? 1.0 / versions_behind : 1.0;
  }

  const ChunkParts chunk_;
  const bool damps_;
  std::optional<DelayCompensator> compensator_;
};

class AsyncMode final : public ConsistencyMode {
 public:
  explicit AsyncMode(AsyncRules rules) : rules_(rules) {}

  bool applies_on_arrival() const override { return true; }

  void AddNodeVersions(const ShardSize& size, MemoryFormula* need) const override {
    if (!rules_.compensation) return;
    AddGivenWeights(size, need);
    if (rules_.compensation->adaptive) need->Add("mean squares", size.own_bytes);
    need->Add("gradient in correction", size.chunk_bytes);
  }

  std::unique_ptr<ChunkMode> CreateForChunk(const ChunkParts& chunk) const override {
    return std::make_unique<AsyncChunk>(chunk, rules_);
  }

 private:
  const AsyncRules rules_;
};

}  // namespace

std::unique_ptr<ConsistencyMode> CreateAsyncMode(const proto::Job& job, const NodeRanks& ranks) {
  const proto::Consistency& consistency = job.consistency();
  return std::make_unique<AsyncMode>(
      AsyncRules{.damps = consistency.async().damping() == proto::Async::INVERSE_STALENESS,
                 .compensation = MakeDelayCompensation(consistency)});
}

}  // namespace strata::server

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "common/copies.h"
#include "common/job/consistency.h"
#include "common/job/optimizer.h"
#include "common/require.h"
#include "numerics/present_update.h"
#include "server/shard/chunk/chunk_parts.h"
#include "server/shard/chunk/consistency_modes.h"

// async: each push is applied on arrival, and answered at once.

namespace strata::server {

namespace {

// Corrects a gradient for the updates since its node's weights were given: g + lambda g g (w -
// w_base) (Zheng et al. 2017). There is one per chunk.
//
// Threads: one.
class DelayCompensator {
 public:
  DelayCompensator(const ChunkParts& chunk, const DelayCompensation& how)
      : chunk_(chunk), how_(how), given_(chunk.nodes.size()) {}

  void OnSeed();
  void OnAnswered(size_t node) { given_.GiveTo(node, chunk_.weights); }
  const WeightVersion& GivenTo(size_t node) const { return given_[node]; }

  // Returns the push's mean gradient, corrected. REQUIRES: `sum` is not empty.
  Bytes Correct(const Push& push, const Bytes& sum) const;

  // See ChunkMode.
  Bytes MeanSquare() const;
  void RestoreMeanSquare(const Bytes& mean_square);
  void AddTo(ChunkCopy* copy) const;
  void Restore(ChunkCopyReader* reader);

  size_t bytes() const;

 private:
  const ChunkParts chunk_;
  const DelayCompensation how_;
  GivenWeights given_;
  std::shared_ptr<float> mean_square_;  // if adaptive
};

void DelayCompensator::OnSeed() {
  given_.GiveToAll(chunk_.weights);
  if (!how_.adaptive) return;
  mean_square_ = chunk_.pool.AllocateFloats(chunk_.weights.elements());
  std::fill_n(mean_square_.get(), chunk_.weights.elements(), 0.0f);
}

Bytes DelayCompensator::Correct(const Push& push, const Bytes& sum) const {
  const size_t count = chunk_.weights.elements();
  STRATA_REQUIRE(sum.float_count() == count);
  const std::shared_ptr<float> mean = chunk_.pool.AllocateFloats(count);
  chunk_.kernels.compensate(how_, static_cast<float>(1.0 / push.samples), sum.floats(),
                            chunk_.weights.weights().floats(), given_[push.node].weights.floats(),
                            mean_square_.get(), mean.get(), count);
  if (chunk_.weights.marks_absent()) {
    for (size_t i = 0; i < count; ++i) {
      mean.get()[i] = numerics::IsAbsent(sum.floats()[i]) ? -0.0f : mean.get()[i] + 0.0f;
    }
  }
  return AsBytes(mean, count);
}

Bytes DelayCompensator::MeanSquare() const {
  if (mean_square_ == nullptr) return Bytes();
  const size_t count = chunk_.weights.elements();
  return AsBytes(CopyFloats(CopyReason::kCut, chunk_.pool, mean_square_.get(), count), count);
}

void DelayCompensator::RestoreMeanSquare(const Bytes& mean_square) {
  if (mean_square_ == nullptr || mean_square.empty()) return;
  CopyBytes(CopyReason::kSeed, mean_square_.get(), mean_square.data(), mean_square.size());
}

void DelayCompensator::AddTo(ChunkCopy* copy) const {
  given_.AddTo(copy);
  copy->head.set_mean_square(copy->Add(MeanSquare()));
}

void DelayCompensator::Restore(ChunkCopyReader* reader) {
  given_.Restore(reader);
  RestoreMeanSquare(reader->Floats(reader->head().mean_square(), "the mean square"));
}

size_t DelayCompensator::bytes() const {
  const size_t mean_squares =
      mean_square_ == nullptr ? 0 : chunk_.weights.elements() * sizeof(float);
  return given_.bytes(chunk_.weights) + mean_squares;
}

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
    // The weights given to a joining node are not kept, so its first push is not corrected.
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
  // Returns the factor of the learning rate for the node's last push.
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

#include "server/shard/chunk/node_copies.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "numerics/checked_payload.h"

namespace strata::server {
namespace {

using Floats = std::vector<float>;

constexpr size_t kNodeCopiesElements = 3000;

Bytes View(const Floats& floats) {
  return Bytes(nullptr, reinterpret_cast<const std::byte*>(floats.data()), floats.size() * 4);
}

Floats Weights(float step) {
  Floats weights(kNodeCopiesElements);
  for (size_t i = 0; i < kNodeCopiesElements; ++i) weights[i] = std::sin(0.1f * i + step);
  return weights;
}

// A node that decodes answers as they come.
struct Receiver {
  Floats weights;

  void Take(const NodeCopies::Answer& answer) {
    const auto payload = numerics::CheckedPayload::Check(
        kernels::Cpu(), answer.codec, kNodeCopiesElements,
        absl::MakeConstSpan(answer.payload.data(), answer.payload.size()));
    ASSERT_TRUE(payload.ok()) << payload.status();
    if (answer.codec == wire::Codec::kNone) {
      payload->WriteTo(weights.data());
    } else {
      payload->AddTo(weights.data(), weights.data());
    }
  }
};

class NodeCopiesOf : public testing::TestWithParam<numerics::Compression> {
 protected:
  AnswerRules Rules(bool shared) const {
    return {{.compression = GetParam(), .feedback = kernels::Feedback::kFollow, .density = 0.1},
            shared};
  }
  BufferPool pool_;
  numerics::EncoderScratch scratch_;
};

TEST_P(NodeCopiesOf, EachNodesAnswersKeepItsOwnCopyWhicheverVersionsItGets) {
  const AnswerRules rules = Rules(false);
  NodeCopies copies(rules, kernels::Cpu(), pool_, &scratch_, 2);
  const Floats first = Weights(0);
  copies.Seed(View(first), 0);
  Receiver nodes[2] = {{first}, {first}};
  for (uint64_t version = 1; version < 40; ++version) {
    const Floats weights = Weights(0.1f * version);
    for (size_t node = 0; node < 2; ++node) {
      if (version % (node + 2) == 0) continue;
      const auto answer = copies.Next(node, View(weights), version);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_EQ(answer->version, version);
      nodes[node].Take(*answer);
      const NodeCopies::Answer whole = copies.WholeCopy(node);
      EXPECT_EQ(whole.base, answer->base + 1);
      EXPECT_EQ(whole.version, version);
      ASSERT_EQ(
          std::memcmp(whole.payload.data(), nodes[node].weights.data(), 4 * kNodeCopiesElements),
          0);
    }
  }
  EXPECT_EQ(copies.WholeCopy(0).base, 20u);
  EXPECT_EQ(copies.WholeCopy(1).base, 26u);
  EXPECT_NE(nodes[0].weights, nodes[1].weights);
}

TEST_P(NodeCopiesOf, ASharedCopyIsEncodedOncePerVersion) {
  const AnswerRules rules = Rules(true);
  NodeCopies copies(rules, kernels::Cpu(), pool_, &scratch_, 3);
  const Floats first = Weights(0);
  copies.Seed(View(first), 0);
  Receiver nodes[3] = {{first}, {first}, {first}};
  for (uint64_t version = 1; version < 20; ++version) {
    const Floats weights = Weights(0.1f * version);
    const std::byte* payload = nullptr;
    for (size_t node = 0; node < 3; ++node) {
      const auto answer = copies.Next(node, View(weights), version);
      ASSERT_TRUE(answer.ok()) << answer.status();
      if (node > 0) {
        EXPECT_EQ(answer->payload.data(), payload);
      }
      payload = answer->payload.data();
      EXPECT_EQ(answer->base, version - 1);
      nodes[node].Take(*answer);
    }
  }
  EXPECT_EQ(nodes[0].weights, nodes[2].weights);
}

TEST_P(NodeCopiesOf, AWholeCopyIsWhatANodeHasThatTookEveryAnswerAndChangesNothing) {
  const AnswerRules rules = Rules(false);
  NodeCopies copies(rules, kernels::Cpu(), pool_, &scratch_, 1);
  const Floats first = Weights(0), weights = Weights(1);
  copies.Seed(View(first), 0);
  EXPECT_EQ(copies.WholeCopy(0).base, 0u);
  Receiver took_all{first}, asked_again{first};
  took_all.Take(*copies.Next(0, View(weights), 1));
  copies.WholeCopy(0);
  asked_again.Take(copies.WholeCopy(0));
  EXPECT_EQ(took_all.weights, asked_again.weights);
  const auto next = copies.Next(0, View(weights), 1);
  took_all.Take(*next);
  asked_again.Take(*next);
  EXPECT_EQ(took_all.weights, asked_again.weights);
}

TEST_P(NodeCopiesOf, WeightsThatAreNotFiniteAreNotEncoded) {
  const AnswerRules rules = Rules(false);
  NodeCopies copies(rules, kernels::Cpu(), pool_, &scratch_, 1);
  Floats weights = Weights(0);
  copies.Seed(View(weights), 0);
  weights[77] = INFINITY;
  EXPECT_EQ(copies.Next(0, View(weights), 1).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Codecs, NodeCopiesOf,
                         testing::Values(numerics::Compression::kFloat16,
                                         numerics::Compression::kBFloat16,
                                         numerics::Compression::kInt8,
                                         numerics::Compression::kOneBit,
                                         numerics::Compression::kTopK));

TEST(NodeCopies, Fp32IsNotEncodedAndHoldsNothing) {
  const AnswerRules rules;
  BufferPool pool;
  numerics::EncoderScratch scratch;
  NodeCopies copies(rules, kernels::Cpu(), pool, &scratch, 4);
  EXPECT_FALSE(copies.encodes());
  const Floats first = Weights(0);
  copies.Seed(View(first), 0);
  EXPECT_EQ(copies.bytes(), 0u);
}

}  // namespace
}  // namespace strata::server

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "gtest/gtest.h"
#include "kernels/testing/reference.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::Op;

std::vector<float> Random(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-3.0f, 3.0f);
  std::vector<float> result(count);
  for (float& x : result) x = values(random);
  return result;
}

// The gradient of a rank depends on the weights, so that a difference anywhere grows.
std::vector<float> GradientOf(uint32_t rank, uint64_t clock, const std::vector<float>& weights) {
  std::vector<float> gradient = Random(1000 * rank + clock, weights.size());
  for (size_t i = 0; i < gradient.size(); ++i) gradient[i] += 0.25f * weights[i];
  return gradient;
}

std::vector<float> NodeSum(const proto::LogicalNode& node, uint64_t clock,
                           const std::vector<float>& weights) {
  std::vector<std::vector<float>> gradients;
  std::vector<const float*> pointers;
  for (uint32_t rank = 0; rank < node.ranks(); ++rank) {
    gradients.push_back(GradientOf(node.first_rank() + rank, clock, weights));
  }
  for (const auto& gradient : gradients) pointers.push_back(gradient.data());
  std::vector<float> sum(weights.size());
  kernels::Cpu().sum(pointers, sum.data(), sum.size());
  return sum;
}

JobOptions Options(std::vector<uint32_t> ranks, const std::string& mode = "sync {}") {
  JobOptions options;
  options.ranks = std::move(ranks);
  options.elements = options.chunk_elements = 11;
  options.batch_per_rank = 4;
  options.job_text =
      "optimizer { momentum_sgd { momentum: 0.9 weight_decay: 0.01 } } "
      "schedule { base_lr: 0.1 } consistency { " +
      mode + " }";
  return options;
}

// Trains `clocks` clocks; in each, nodes push in the order that `order(clock)` gives. Returns the
// weights after each clock and checks that every node gets the same answer.
template <typename Order>
std::vector<std::vector<float>> Train(const JobOptions& options, uint64_t clocks, Order order) {
  const proto::JobRecord record = MakeRecord(options);
  ShardHarness shard;
  EXPECT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  std::vector<ConnectionId> nodes;
  for (uint32_t i = 0; i < options.ranks.size(); ++i) nodes.push_back(shard.Join(record, i));
  std::vector<float> weights = Random(77, options.elements);
  EXPECT_EQ(shard.DeliverForOne(nodes[0], InitFrame(record, 0, 0, weights)).header.op, Op::kInitOk);
  std::vector<std::vector<float>> history;
  for (uint64_t clock = 0; clock < clocks; ++clock) {
    std::vector<Sent> answers;
    for (uint32_t node : order(clock)) {
      EXPECT_TRUE(answers.empty()) << "answered before every node had pushed";
      const proto::LogicalNode& logical = record.view().nodes(node);
      answers = shard.Deliver(nodes[node],
                              PushFrame(record, node, 0, clock, NodeSum(logical, clock, weights),
                                        4 * logical.ranks(), clock));
    }
    EXPECT_EQ(answers.size(), nodes.size());
    for (const Sent& answer : answers) {
      const wire::Header& header = answer.frame.header;
      EXPECT_EQ(header.op, Op::kAnswer);
      EXPECT_EQ(answer.connection, nodes[header.node]);
      EXPECT_EQ(header.clock, clock);
      EXPECT_EQ(header.version, clock + 1);
      EXPECT_EQ(header.received, clock + 1);
      EXPECT_EQ(header.min_clock, clock + 1);
      EXPECT_EQ(header.staleness, 0u);
      EXPECT_EQ(answer.frame.payload.data(), answers[0].frame.payload.data()) << "not one buffer";
    }
    weights = ToFloats(answers.at(0).frame);
    history.push_back(weights);
  }
  return history;
}

std::vector<std::vector<float>> TrainInOrder(const JobOptions& options, uint64_t clocks) {
  std::vector<uint32_t> order(options.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  return Train(options, clocks, [&](uint64_t) { return order; });
}

TEST(ShardCoreSync, EveryArrivalOrderGivesTheSameBits) {
  for (size_t nodes : {3, 4}) {
    const JobOptions options = Options(std::vector<uint32_t>(nodes, 1));
    const auto expected = TrainInOrder(options, 2);
    std::vector<uint32_t> order(nodes);
    std::iota(order.begin(), order.end(), 0);
    do {
      auto other = order;
      std::rotate(other.begin(), other.begin() + 1, other.end());
      EXPECT_EQ(Train(options, 2, [&](uint64_t clock) { return clock == 0 ? order : other; }),
                expected);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(ShardCoreSync, LayoutsOfTheSameRanksGiveTheSameBits) {
  const auto expected = TrainInOrder(Options({1, 1, 1, 1}), 5);
  EXPECT_EQ(TrainInOrder(Options({2, 2}), 5), expected);
  EXPECT_EQ(TrainInOrder(Options({4}), 5), expected);
}

TEST(ShardCoreSync, LazyWithBoundZeroGivesTheBitsOfSync) {
  EXPECT_EQ(TrainInOrder(Options({1, 2, 1}, "lazy { staleness: 0 }"), 6),
            TrainInOrder(Options({1, 2, 1}), 6));
}

TEST(ShardCoreSync, AppliesTheOptimizerToTheMeanOfTheTreeSum) {
  const JobOptions options = Options({1, 1, 1});
  const auto history = TrainInOrder(options, 3);
  OptimizerParams params;
  params.kind = OptimizerKind::kMomentumSgd;
  params.momentum = 0.9f;
  std::vector<float> weights = Random(77, 11), velocity(11), sum(11);
  for (uint64_t clock = 0; clock < 3; ++clock) {
    std::vector<std::vector<float>> gradients;
    for (uint32_t rank = 0; rank < 3; ++rank) gradients.push_back(GradientOf(rank, clock, weights));
    const float* pointers[] = {gradients[0].data(), gradients[1].data(), gradients[2].data()};
    kernels::reference::Sum(absl::MakeConstSpan(pointers), sum.data(), sum.size());
    const kernels::OptimizerStep step = {0.1f, 0.01f, static_cast<float>(1.0 / 12), clock + 1};
    kernels::reference::Optimize(params, step, sum.data(), weights.data(), weights.data(),
                                 velocity.data(), nullptr, sum.size());
    EXPECT_EQ(history[clock], weights) << clock;
  }
}

TEST(ShardCoreSync, WeighsNodesByTheirSamplesAndKeysTheRateToSamples) {
  JobOptions options;
  options.ranks = {1, 3};
  options.elements = options.chunk_elements = 1;
  options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 warmup_epochs: 1 }";
  proto::JobRecord record = MakeRecord(options);
  record.set_samples_per_epoch(32);
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId a = shard.Join(record, 0), b = shard.Join(record, 1);
  shard.Deliver(a, InitFrame(record, 0, 0, {1.0f}));
  shard.Deliver(a, PushFrame(record, 0, 0, 0, {2.0f}, 2));
  const auto answers = shard.Deliver(b, PushFrame(record, 1, 0, 0, {6.0f}, 6));
  ASSERT_EQ(answers.size(), 2u);
  // Rate 8/32, mean gradient 8/8.
  EXPECT_EQ(ToFloats(answers[0].frame)[0], 0.75f);
}

TEST(ShardCoreSync, EmptyPushesAdvanceTheClockAndAddNothing) {
  JobOptions options;
  options.elements = options.chunk_elements = 1;
  options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 }";
  const proto::JobRecord record = MakeRecord(options);
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId a = shard.Join(record, 0), b = shard.Join(record, 1);
  shard.Deliver(a, InitFrame(record, 0, 0, {8.0f}));
  shard.Deliver(a, EmptyFrame(record, 0, 0, 0, 2));
  auto answers = shard.Deliver(b, PushFrame(record, 1, 0, 0, {4.0f}, 2));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[0].frame)[0], 7.0f) << "the empty push's samples count";
  shard.Deliver(a, EmptyFrame(record, 0, 0, 1, 0));
  answers = shard.Deliver(b, EmptyFrame(record, 1, 0, 1, 0));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[0].frame)[0], 7.0f);
  EXPECT_EQ(answers[0].frame.header.version, 2u);
}

TEST(ShardCoreSync, AnAnswerOnItsWayIsNotChangedByTheNextUpdate) {
  const JobOptions options = Options({1});
  const proto::JobRecord record = MakeRecord(options);
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId node = shard.Join(record, 0);
  const std::vector<float> ones(11, 1.0f);
  shard.Deliver(node, InitFrame(record, 0, 0, ones));
  const wire::Frame first = shard.DeliverForOne(node, PushFrame(record, 0, 0, 0, ones, 4));
  const std::vector<float> before = ToFloats(first);
  const wire::Frame second = shard.DeliverForOne(node, PushFrame(record, 0, 0, 1, ones, 4));
  EXPECT_EQ(ToFloats(first), before);
  EXPECT_NE(ToFloats(second), before);
}

}  // namespace
}  // namespace strata::server

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/testing/reference.h"
#include "server/testing/shard_harness.h"

// lazy and async: the applied updates and the answers, with exact values.

namespace strata::server {

namespace {

using transport::ConnectionId;
using wire::Op;

// A job of one weight, plain SGD with rate 1, and one connection per node; the weight starts at 0.
struct OneWeight {
  proto::JobRecord record;
  ShardHarness shard;
  std::vector<ConnectionId> nodes;

  explicit OneWeight(const std::string& mode, std::vector<uint32_t> ranks = {1, 1},
                     uint32_t batch_per_rank = 4,
                     const std::string& optimizer = "optimizer { sgd {} } schedule { base_lr: 1 }",
                     float first_weight = 0.0f, bool marks_absent = false) {
    JobOptions options;
    options.ranks = ranks;
    options.elements = options.chunk_elements = 1;
    options.batch_per_rank = batch_per_rank;
    options.job_text = optimizer + " consistency { " + mode + " }";
    record = MakeRecord(options);
    record.set_marks_absent(marks_absent);
    EXPECT_TRUE(shard.core().Install(record, ShardId(0)).ok());
    for (uint32_t i = 0; i < ranks.size(); ++i) nodes.push_back(shard.Join(record, i));
    shard.Deliver(nodes[0], InitFrame(record, 0, 0, {first_weight}));
  }

  std::vector<Sent> Push(uint32_t node, uint64_t clock, float sum, uint32_t samples,
                         uint64_t base_version = 0) {
    return shard.Deliver(nodes[node],
                         PushFrame(record, node, 0, clock, {sum}, samples, base_version));
  }
};

TEST(ShardCoreLazy, AnswersPerClockCarryTheNewestWeightsWithinTheBound) {
  OneWeight job("lazy { staleness: 1 }");
  // Node 0 may be one clock ahead: its push 0 is answered with version 0.
  auto sent = job.Push(0, 0, -4.0f, 4);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.version, 0u);
  EXPECT_EQ(sent[0].frame.header.staleness, 1u);
  EXPECT_EQ(sent[0].frame.header.received, 1u);
  EXPECT_EQ(sent[0].frame.header.min_clock, 0u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 0.0f);
  // Its push 1 would be two ahead: no answer until node 1 has pushed clock 0.
  EXPECT_TRUE(job.Push(0, 1, -16.0f, 4).empty());
  sent = job.Push(1, 0, -12.0f, 4);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].frame.header.node, 0u);
  EXPECT_EQ(sent[0].frame.header.clock, 1u);
  EXPECT_EQ(sent[0].frame.header.staleness, 1u);
  EXPECT_EQ(sent[1].frame.header.node, 1u);
  EXPECT_EQ(sent[1].frame.header.staleness, 0u);
  for (const Sent& answer : sent) {
    EXPECT_EQ(answer.frame.header.version, 1u);
    EXPECT_EQ(ToFloats(answer.frame)[0], 2.0f) << "clock 0 only: 16/8";
  }
  sent = job.Push(1, 1, 0.0f, 4);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 4.0f) << "clock 1: 16/8 more";
}

TEST(ShardCoreLazy, OnArrivalEachPushCountsAsItsShareOfAClock) {
  OneWeight job("lazy { staleness: 1 apply: ON_ARRIVAL }", {1, 3}, 4);
  auto sent = job.Push(0, 0, -16.0f, 4);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 1.0f) << "16 of a clock's 16 samples";
  EXPECT_EQ(sent[0].frame.header.version, 1u);
  EXPECT_EQ(sent[0].frame.header.staleness, 1u);
  EXPECT_TRUE(job.Push(0, 1, -16.0f, 4).empty()) << "the gate holds the answer, not the update";
  sent = job.Push(1, 0, -48.0f, 12);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 5.0f);
  EXPECT_EQ(sent[0].frame.header.version, 3u);
}

TEST(ShardCoreLazy, OnArrivalOfAProgramScalesByTheRanks) {
  OneWeight job("lazy { staleness: 1 apply: ON_ARRIVAL }", {1, 3}, 4);
  job.record.mutable_job()->clear_data();
  job.record.set_job_id(99);
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(job.record, ShardId(0)).ok());
  const ConnectionId node = shard.Join(job.record, 1);
  shard.Deliver(node, InitFrame(job.record, 1, 0, {0.0f}));
  // 6 samples on 3 ranks of 4: a clock is 8.
  const auto sent = shard.Deliver(node, PushFrame(job.record, 1, 0, 0, {-16.0f}, 6));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 2.0f);
}

// The weight after one clock of four nodes, each with the mean gradient 1.
float AfterOneClock(const std::string& apply, const std::string& optimizer) {
  OneWeight job("lazy { staleness: 1 apply: " + apply + " }", {1, 1, 1, 1}, 4,
                "optimizer { " + optimizer + " } schedule { base_lr: 0.1 }", 1.0f);
  std::vector<Sent> sent;
  for (uint32_t node = 0; node < 4; ++node) sent = job.Push(node, 0, 4.0f, 4);
  EXPECT_FALSE(sent.empty());
  return sent.empty() ? 0.0f : ToFloats(sent.back().frame)[0];
}

TEST(ShardCoreLazy, OnArrivalDecayAndAdamStepCountOncePerClockNotOncePerNode) {
  for (const char* optimizer :
       {"sgd { weight_decay: 1 }", "adam {}", "adamw { weight_decay: 1 }"}) {
    const float per_clock = AfterOneClock("PER_CLOCK", optimizer);
    // Four steps of a quarter differ from one whole step in second order only.
    EXPECT_NEAR(AfterOneClock("ON_ARRIVAL", optimizer), per_clock, 0.02) << optimizer;
  }
}

TEST(ShardCoreAsync, EachPushIsAppliedAtOnceWithItsStaleness) {
  OneWeight job("async {}");
  uint64_t base[2] = {0, 0};
  float expected = 0.0f;
  uint64_t version = 0;
  uint64_t clocks[2] = {0, 0};
  for (uint32_t node : {0, 0, 0, 1, 0, 1, 1, 0}) {
    const auto sent = job.Push(node, clocks[node], -3.0f, 4, base[node]);
    ASSERT_EQ(sent.size(), 1u);
    const wire::Header& header = sent[0].frame.header;
    EXPECT_EQ(header.staleness, version - base[node]);
    EXPECT_EQ(header.version, ++version);
    expected += 0.75f;
    EXPECT_EQ(ToFloats(sent[0].frame)[0], expected);
    base[node] = version;
    ++clocks[node];
  }
}

TEST(ShardCoreAsync, InverseDampingDividesTheRateByTheStaleness) {
  OneWeight job("async { damping: INVERSE_STALENESS }");
  uint64_t base[2] = {0, 0}, clocks[2] = {0, 0}, version = 0;
  float expected = 0.0f;
  for (uint32_t node : {0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1}) {
    const uint64_t staleness = version - base[node];
    const auto sent = job.Push(node, clocks[node], -6.0f, 2, base[node]);
    ASSERT_EQ(sent.size(), 1u);
    const float rate = static_cast<float>(staleness > 1 ? 1.0 * (1.0 / staleness) : 1.0);
    expected = expected - rate * (0.5f * -6.0f);
    EXPECT_EQ(ToFloats(sent[0].frame)[0], expected);
    EXPECT_EQ(sent[0].frame.header.staleness, staleness);
    base[node] = sent[0].frame.header.version;
    version = base[node];
    ++clocks[node];
  }
  EXPECT_EQ(version, 12u);
}

TEST(ShardCoreAsync, ARepeatedPushIsAnsweredAgainWithTheSameStaleness) {
  OneWeight job("async {}");
  job.Push(0, 0, -1.0f, 1, 0);
  job.Push(0, 1, -1.0f, 1, 1);
  job.Push(1, 0, -1.0f, 1, 0);
  const auto sent = job.Push(1, 0, -1.0f, 1, 0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.staleness, 2u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 3.0f);
}

// Nodes of random speed; a model outside the shard counts each node's pushes.
TEST(ShardCoreLazy, NeverAnswersPastItsBoundWhateverTheSpeeds) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const uint64_t bound = seed % 5;
    const bool on_arrival = seed % 2 == 1;
    const size_t count = 2 + seed % 3;
    OneWeight job(
        "lazy { staleness: " + std::to_string(bound) + (on_arrival ? " apply: ON_ARRIVAL }" : " }"),
        std::vector<uint32_t>(count, 1));
    std::vector<uint64_t> pushed(count), answered(count);
    std::vector<uint64_t> histogram(bound + 1);
    std::vector<double> speed(count);
    for (double& s : speed) s = 1 << random() % 5;
    std::discrete_distribution<uint32_t> pick(speed.begin(), speed.end());
    for (int step = 0; step < 400; ++step) {
      const uint32_t node = pick(random);
      if (answered[node] < pushed[node]) continue;  // it waits
      const auto sent = job.Push(node, pushed[node]++, 1.0f, 1);
      const uint64_t slowest = *std::min_element(pushed.begin(), pushed.end());
      for (const Sent& answer : sent) {
        const wire::Header& header = answer.frame.header;
        ASSERT_EQ(header.op, Op::kAnswer);
        ASSERT_GE(slowest + bound, header.clock + 1) << "seed " << seed;
        ASSERT_EQ(header.min_clock, slowest);
        const uint64_t staleness = header.clock + 1 > slowest ? header.clock + 1 - slowest : 0;
        ASSERT_EQ(header.staleness, staleness);
        if (!on_arrival) {
          ASSERT_EQ(header.version, slowest);
        }
        ++histogram.at(header.staleness);
        ASSERT_EQ(header.clock, answered[header.node]++);
      }
      // Every answer that is permitted has been sent.
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(answered[i] == pushed[i], slowest + bound >= pushed[i]) << "seed " << seed;
      }
    }
    EXPECT_GT(histogram[bound], 0u) << "the bound was never reached, seed " << seed;
  }
}

// Two nodes; each computes with weights that the other's updates have changed meanwhile.
void ExpectCompensates(bool adaptive) {
  const double lambda = adaptive ? 2.0 : 0.25, decay = 0.5;
  OneWeight job(adaptive ? "async { delay_compensation { adaptive: true decay: 0.5 } }"
                         : "async { delay_compensation { lambda: 0.25 } }");
  uint64_t base[2] = {0, 0}, clocks[2] = {0, 0}, version = 0;
  double w = 0, given[2] = {0, 0}, square = 0;
  int step = 0;
  for (uint32_t node : {0, 0, 1, 0, 0, 1, 1, 0}) {
    const double g = 0.5 * (++step % 3 - 0.75);  // of 4 samples
    const auto sent = job.Push(node, clocks[node]++, static_cast<float>(4 * g), 4, base[node]);
    ASSERT_EQ(sent.size(), 1u);
    square = decay * square + (1 - decay) * g * g;
    const double factor = adaptive ? lambda / std::sqrt(square + 1e-7) : lambda;
    w -= g + factor * g * g * (w - given[node]);
    EXPECT_NEAR(ToFloats(sent[0].frame)[0], w, 1e-5) << step;
    EXPECT_EQ(sent[0].frame.header.version, ++version);
    given[node] = w;
    base[node] = version;
  }
}

TEST(ShardCoreAsync, DelayCompensationCorrectsByWhatTheWeightsHaveMoved) {
  ExpectCompensates(/*adaptive=*/false);
  ExpectCompensates(/*adaptive=*/true);
}

TEST(ShardCoreAsync, ElasticNodesDrawTheCenterByTheirShareOfTheMovingRate) {
  OneWeight job("async { elastic { moving_rate: 0.5 } }");  // a = 0.25
  EXPECT_EQ(ToFloats(job.Push(0, 0, 8.0f, 4)[0].frame)[0], 2.0f);
  const auto sent = job.Push(1, 0, -2.0f, 400);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 1.0f) << "samples do not weigh";
  EXPECT_EQ(sent[0].frame.header.staleness, 1u);
  EXPECT_EQ(ToFloats(job.Push(0, 0, 8.0f, 4)[0].frame)[0], 2.0f) << "as it was given before";
  EXPECT_EQ(ToFloats(job.Push(0, 1, 5.0f, 4, 1)[0].frame)[0], 2.0f) << "1 + (5 - 1) / 4";
}

TEST(ShardCoreAsync, AMovingRateOfOneForEachNodeIsRefused) {
  JobOptions options;
  options.job_text = "consistency { async { elastic { moving_rate: 2 } } }";
  ShardHarness shard;
  EXPECT_EQ(shard.core().Install(MakeRecord(options), ShardId(0)).message(),
            "job 7: consistency.async.elastic.moving_rate: 2, but divided by 2 nodes it must be "
            "below 1");
}

TEST(ShardCoreAsync, WithDelayCompensationWhoAsksAgainIsGivenTheSameWeights) {
  OneWeight job("async { delay_compensation {} }");
  const auto first = job.Push(0, 0, -4.0f, 4);
  ASSERT_EQ(job.Push(1, 0, -8.0f, 4).size(), 1u);
  const auto again = job.Push(0, 0, -4.0f, 4);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].frame.header.version, first[0].frame.header.version);
  EXPECT_EQ(ToFloats(again[0].frame), ToFloats(first[0].frame));
  const auto other = job.Push(0, 1, -4.0f, 4, /*base_version=*/2);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].frame.header.op, Op::kError);
  EXPECT_EQ(other[0].frame.header.error, wire::ErrorCode::kBeyondWindow);
  EXPECT_EQ(job.Push(0, 1, -4.0f, 4, /*base_version=*/1)[0].frame.header.op, Op::kAnswer);
}

// Decay alone would halve it in each version.
constexpr char kDecay[] = "optimizer { sgd { weight_decay: 0.5 } } schedule { base_lr: 1 }";

TEST(ShardCoreAbsent, AWeightThatNoNodeHasAGradientOfStays) {
  for (const char* mode :
       {"sync {}", "lazy { staleness: 1 }", "async {}",
        "async { delay_compensation { lambda: 1 } }", "lazy { staleness: 1 apply: ON_ARRIVAL }",
        "lazy { quorum { nodes: 2 } }"}) {
    for (const bool marks : {true, false}) {
      OneWeight job(mode, {1, 1}, 4, kDecay, 8, marks);
      job.Push(0, 0, -0.0f, 4);
      const std::vector<Sent> sent = job.Push(1, 0, -0.0f, 4);
      ASSERT_FALSE(sent.empty()) << mode;
      EXPECT_EQ(ToFloats(sent.back().frame)[0] == 8, marks) << mode;
    }
  }
}

TEST(ShardCoreAbsent, AZeroOfOneNodeIsAGradient) {
  OneWeight job("sync {}", {1, 1}, 4, kDecay, 8, true);
  job.Push(0, 0, -0.0f, 4);
  const std::vector<Sent> sent = job.Push(1, 0, 0.0f, 4);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 4.0f);
}

TEST(ShardCoreAbsent, ANodeWithoutSamplesPushesNoGradients) {
  OneWeight job("sync {}", {1, 1}, 4, kDecay, 8, true);
  EXPECT_TRUE(job.Push(0, 0, -0.0f, 0).empty());
  const std::vector<Sent> sent = job.Push(1, 0, -8.0f, 4);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(ToFloats(sent[0].frame)[0], 8.0f + 2 - 4);
}

std::vector<float> Random(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> values(-3.0f, 3.0f);
  std::vector<float> result(count);
  for (float& x : result) x = values(random);
  return result;
}

// The gradient of a rank depends on the weights, so that any difference grows.
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

// Quorum: which pushes a clock takes, when it closes and which nodes are answered, with exact
// values.

// One weight that begins at 0, plain SGD with rate 1: it falls by the mean of each clock.
struct QuorumOneWeight {
  proto::JobRecord record;
  ShardHarness shard;
  std::vector<ConnectionId> nodes;
  std::vector<uint64_t> clocks;  // number of each node's pushes

  QuorumOneWeight(const std::string& quorum, size_t count) : clocks(count) {
    JobOptions options;
    options.ranks.assign(count, 1);
    options.elements = options.chunk_elements = 1;
    options.job_text =
        absl::StrCat("optimizer { sgd {} } schedule { base_lr: 1 } consistency { lazy { quorum { ",
                     quorum, " } } }");
    record = MakeRecord(options);
    EXPECT_TRUE(shard.core().Install(record, ShardId(0)).ok());
    for (uint32_t i = 0; i < count; ++i) nodes.push_back(shard.Join(record, i));
    shard.Deliver(nodes[0], InitFrame(record, 0, 0, {0}));
  }

  std::vector<Sent> Push(uint32_t node, float sum, uint32_t samples, uint64_t base_version) {
    return shard.Deliver(nodes[node],
                         PushFrame(record, node, 0, clocks[node]++, {sum}, samples, base_version));
  }
  // Repeats the last push.
  std::vector<Sent> PushAgain(uint32_t node, float sum, uint32_t samples, uint64_t base_version) {
    --clocks[node];
    return Push(node, sum, samples, base_version);
  }
  std::vector<Sent> Retire(uint32_t node) {
    std::vector<Sent> sent =
        shard.Deliver(nodes[node], ControlFrame(record, Op::kRetire, node, 0, clocks[node]));
    EXPECT_EQ(sent.at(0).frame.header.op, Op::kRetireOk);
    sent.erase(sent.begin());
    return sent;
  }
};

struct Answer {
  uint32_t node = 0;
  uint64_t clock = 0, version = 0;
  uint32_t staleness = 0;
  float weight = 0;
  bool operator==(const Answer&) const = default;
};

std::vector<Answer> AnswersOf(const std::vector<Sent>& sent) {
  std::vector<Answer> answers;
  for (const Sent& one : sent) {
    const wire::Header& header = one.frame.header;
    EXPECT_EQ(header.op, Op::kAnswer) << wire::Describe(header);
    answers.push_back(
        {header.node, header.clock, header.version, header.staleness, ToFloats(one.frame).at(0)});
  }
  return answers;
}

using Answers = std::vector<Answer>;

TEST(ShardCoreQuorum, AClockClosesOnceSoManyNodesAreInItAndIsTheirMean) {
  QuorumOneWeight job("nodes: 2", 3);
  EXPECT_EQ(AnswersOf(job.Push(2, -4, 2, 0)), Answers());
  EXPECT_EQ(AnswersOf(job.Push(0, -8, 4, 0)), Answers({{0, 0, 1, 0, 2.0f}, {2, 0, 1, 0, 2.0f}}));
}

TEST(ShardCoreQuorum, ALatePushCountsInTheNextClockAndItsNodeDoesNotWait) {
  QuorumOneWeight job("nodes: 2", 3);
  job.Push(0, -4, 4, 0);
  job.Push(1, -4, 4, 0);  // the weight is 1, of version 1
  EXPECT_EQ(AnswersOf(job.Push(2, -12, 4, 0)), Answers({{2, 0, 1, 1, 1.0f}}));
  EXPECT_EQ(AnswersOf(job.Push(0, -8, 4, 1)), Answers()) << "one of two";
  // (12 + 8 + 16) / 12 more.
  EXPECT_EQ(AnswersOf(job.Push(1, -16, 4, 1)), Answers({{0, 1, 2, 0, 4.0f}, {1, 1, 2, 0, 4.0f}}));
}

TEST(ShardCoreQuorum, OnlyThoseInTimeMakeTheQuorum) {
  QuorumOneWeight job("nodes: 2", 4);
  job.Push(0, 0, 4, 0);
  job.Push(1, 0, 4, 0);
  EXPECT_EQ(job.Push(2, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(3, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(2, 0, 4, 0).size(), 1u) << "late again, in the same clock";
  EXPECT_EQ(job.Push(2, 0, 4, 1).size(), 0u) << "and now in time";
  EXPECT_EQ(job.Push(3, 0, 4, 1).size(), 2u);
}

TEST(ShardCoreQuorum, AllNodesCloseAClockWithoutItsGrace) {
  QuorumOneWeight job("nodes: 1 grace_ms: 100", 2);
  job.Push(0, -4, 4, 0);
  EXPECT_EQ(job.Push(1, -4, 4, 0).size(), 2u);
  EXPECT_EQ(job.shard.core().deadline(), absl::InfiniteFuture());
}

TEST(ShardCoreQuorum, TheGraceCountsFromTheNodeThatMakesTheQuorum) {
  QuorumOneWeight job("nodes: 2 grace_ms: 100", 4);
  job.Push(0, -4, 4, 0);
  EXPECT_EQ(job.shard.core().deadline(), absl::InfiniteFuture());
  EXPECT_TRUE(job.shard.PassTime(absl::Milliseconds(500)).empty());
  job.Push(1, -4, 4, 0);
  EXPECT_EQ(job.shard.core().deadline(), absl::UnixEpoch() + absl::Milliseconds(600));
  EXPECT_TRUE(job.shard.PassTime(absl::Milliseconds(99)).empty());
  EXPECT_TRUE(job.Push(2, -16, 4, 0).empty()) << "in time, thanks to the grace";
  EXPECT_EQ(job.shard.core().deadline(), absl::UnixEpoch() + absl::Milliseconds(600));
  EXPECT_EQ(AnswersOf(job.shard.PassTime(absl::Milliseconds(1))),
            Answers({{0, 0, 1, 0, 2.0f}, {1, 0, 1, 0, 2.0f}, {2, 0, 1, 0, 2.0f}}));
  EXPECT_EQ(job.shard.core().deadline(), absl::InfiniteFuture());
  EXPECT_TRUE(job.shard.PassTime(absl::Seconds(10)).empty());
}

TEST(ShardCoreQuorum, WhoIsInAClockTooLateIsNotWaitedForEither) {
  QuorumOneWeight job("nodes: 1 grace_ms: 100", 3);
  job.Push(0, 0, 4, 0);
  EXPECT_EQ(job.shard.PassTime(absl::Milliseconds(100)).size(), 1u);
  EXPECT_EQ(job.Push(1, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(2, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(0, 0, 4, 1).size(), 1u) << "all are in it";
}

TEST(ShardCoreQuorum, WhereFewerGoOnAllOfThemMakeTheQuorum) {
  QuorumOneWeight job("nodes: 3 grace_ms: 100", 4);
  job.Push(3, -4, 4, 0);
  job.Push(0, -4, 4, 0);
  EXPECT_TRUE(job.Retire(1).empty());
  EXPECT_EQ(AnswersOf(job.Retire(2)), Answers({{0, 0, 1, 0, 1.0f}, {3, 0, 1, 0, 1.0f}}));
  job.Retire(0);
  EXPECT_EQ(AnswersOf(job.Push(3, -4, 4, 1)), Answers({{3, 1, 2, 0, 2.0f}}));
}

TEST(ShardCoreQuorum, WhatWasLateForTheLastClockIsInTheFinalWeights) {
  QuorumOneWeight job("nodes: 1", 2);
  job.Push(0, -4, 4, 0);
  EXPECT_EQ(AnswersOf(job.Push(1, -12, 4, 0)), Answers({{1, 0, 1, 1, 1.0f}}));
  EXPECT_TRUE(job.shard.Deliver(job.nodes[0], ControlFrame(job.record, Op::kCut, 0, 0, 1)).empty());
  EXPECT_TRUE(job.Retire(0).empty());
  const std::vector<Sent> cut = job.Retire(1);
  ASSERT_EQ(cut.size(), 1u);
  EXPECT_EQ(cut[0].frame.header.op, Op::kCutAnswer);
  EXPECT_EQ(cut[0].frame.header.version, 2u);
  EXPECT_EQ(ToFloats(cut[0].frame)[0], 4.0f);
}

TEST(ShardCoreQuorum, ARepeatedPushCountsOnceAndIsAnsweredOnceItsClockHasClosed) {
  QuorumOneWeight job("nodes: 2", 3);
  job.Push(0, -4, 4, 0);
  EXPECT_TRUE(job.PushAgain(0, -4, 4, 0).empty());
  job.Push(1, -4, 4, 0);
  const Answers again = {{0, 0, 1, 0, 1.0f}};
  EXPECT_EQ(AnswersOf(job.PushAgain(0, -4, 4, 0)), again);
  const Answers late = {{2, 0, 1, 1, 1.0f}};
  EXPECT_EQ(AnswersOf(job.Push(2, -4, 4, 0)), late);
  EXPECT_EQ(AnswersOf(job.PushAgain(2, -4, 4, 0)), late);
  job.Push(0, -4, 4, 1);
  EXPECT_EQ(job.Push(1, -4, 4, 1).size(), 2u);
  EXPECT_EQ(AnswersOf(job.PushAgain(2, -4, 4, 0)), Answers({{2, 0, 2, 1, 2.0f}}))
      << "the newest weights";
}

TEST(ShardCoreQuorum, AProcessThatReplacesOneWhosePushWaitsDoesNotWait) {
  QuorumOneWeight job("nodes: 3", 3);
  job.Push(0, -4, 4, 0);
  EXPECT_TRUE(job.PushAgain(0, -4, 4, 0).empty()) << "the same process";
  job.nodes[0] = job.shard.Join(job.record, 0, /*incarnation=*/2);
  const auto replay = [&](uint64_t clock, uint64_t base_version) {
    wire::Frame push = PushFrame(job.record, 0, 0, clock, {-4}, 4, base_version);
    push.header.incarnation = 2;
    return AnswersOf(job.shard.Deliver(job.nodes[0], push));
  };
  const Answers at_once = {{0, 0, 0, 0, 0.0f}};
  EXPECT_EQ(replay(0, 0), at_once);
  EXPECT_EQ(replay(0, 0), at_once) << "asked again";
  EXPECT_EQ(replay(1, 0), Answers()) << "in time for the same clock";
  job.Push(1, -4, 4, 0);
  EXPECT_EQ(AnswersOf(job.Push(2, -4, 4, 0)),
            Answers({{0, 1, 1, 0, 1.0f}, {1, 0, 1, 0, 1.0f}, {2, 0, 1, 0, 1.0f}}));
}

TEST(ShardCoreQuorum, ALatePushThatIsNotFiniteIsRefusedAndCountsNowhere) {
  QuorumOneWeight job("nodes: 2", 3);
  const auto sent = job.Push(0, std::numeric_limits<float>::quiet_NaN(), 4, 0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.error, wire::ErrorCode::kNotFinite);
  --job.clocks[0];
  job.Push(0, -4, 4, 0);
  EXPECT_EQ(AnswersOf(job.Push(1, -4, 4, 0)), Answers({{0, 0, 1, 0, 1.0f}, {1, 0, 1, 0, 1.0f}}));
}

TEST(ShardCoreQuorum, EachJobAndChunkHasItsOwnGrace) {
  ShardHarness shard;
  std::vector<proto::JobRecord> records;
  std::vector<ConnectionId> nodes;
  for (uint32_t job : {1, 2}) {
    JobOptions options;
    options.job = job;
    options.job_text = absl::StrCat(
        "optimizer { sgd {} } schedule { base_lr: 1 } consistency { lazy { quorum { nodes: 1 "
        "grace_ms: ",
        100 * job, " } } }");
    records.push_back(MakeRecord(options));
    ASSERT_TRUE(shard.core().Install(records.back(), ShardId(0)).ok());
    nodes.push_back(shard.Join(records.back(), 0));
    for (uint32_t c : {0, 1}) {
      shard.Deliver(nodes.back(), InitFrame(records.back(), 0, c, {0, 0, 0, 0}));
    }
  }
  const auto push = [&](uint32_t job, uint32_t chunk) {
    return shard.Deliver(nodes[job], PushFrame(records[job], 0, chunk, 0, {1, 1, 1, 1}, 4));
  };
  push(1, 0);
  push(0, 1);
  shard.PassTime(absl::Milliseconds(50));
  push(0, 0);
  std::vector<Sent> sent = shard.PassTime(absl::Milliseconds(50));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.job, 1u);
  EXPECT_EQ(sent[0].frame.header.chunk, 1u);
  sent = shard.PassTime(absl::Milliseconds(50));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.job, 1u);
  EXPECT_EQ(sent[0].frame.header.chunk, 0u);
  std::vector<ShardAction> actions;
  shard.core().Remove(JobId(2), &actions);
  EXPECT_EQ(shard.core().deadline(), absl::InfiniteFuture());
}

TEST(ShardCoreQuorum, MoreNodesThanTheJobHasAreRefused) {
  JobOptions options;
  options.job_text = "consistency { lazy { quorum { nodes: 3 } } }";
  ShardHarness shard;
  EXPECT_EQ(shard.core().Install(MakeRecord(options), ShardId(0)).message(),
            "job 7: consistency.lazy.quorum.nodes: 3, but the job has 2 nodes");
}

// Pushes with the learning rate of their step: the rate of each update, with exact values.

using wire::ErrorCode;

// All weights begin at 0; plain SGD, whose schedule has a rate that must not be used.
struct RatedJob {
  proto::JobRecord record;
  ShardHarness shard;
  std::vector<ConnectionId> nodes;

  explicit RatedJob(const std::string& mode, std::vector<uint32_t> ranks = {1, 1},
                    uint32_t elements = 1, const std::string& optimizer = "sgd {}") {
    JobOptions options;
    options.ranks = ranks;
    options.elements = options.chunk_elements = elements;
    options.job_text = absl::StrCat("optimizer { ", optimizer, " } schedule { base_lr: 1000 } ",
                                    "consistency { ", mode, " }");
    record = MakeRecord(options);
    record.set_says_rates(true);
    record.set_samples_per_epoch(64);
    EXPECT_TRUE(shard.core().Install(record, ShardId(0)).ok());
    for (uint32_t i = 0; i < ranks.size(); ++i) nodes.push_back(shard.Join(record, i));
    shard.Deliver(nodes[0], InitFrame(record, 0, 0, std::vector<float>(elements, 0.0f)));
  }

  // Sums of four samples, whose mean is -1: the weight grows by the rate.
  std::vector<Sent> Push(uint32_t node, uint64_t clock, float rate, uint64_t base_version = 0,
                         uint32_t samples = 4) {
    const std::vector<float> sum(record.layout().elements(), -1.0f * samples);
    wire::Frame frame = PushFrame(record, node, 0, clock, sum, samples, base_version);
    frame.header.rate = rate;
    return shard.Deliver(nodes[node], frame);
  }
};

float Weight(const Sent& sent) {
  EXPECT_EQ(sent.frame.header.op, Op::kAnswer);
  return ToFloats(sent.frame).at(0);
}

std::string TextOf(const wire::Frame& frame) {
  return {reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size()};
}

TEST(ShardCoreRates, AClockIsAppliedAtTheRateThatItsPushesSay) {
  RatedJob job("sync {}");
  EXPECT_TRUE(job.Push(0, 0, 0.5f).empty());
  auto sent = job.Push(1, 0, 0.5f);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(Weight(sent[0]), 0.5f);
  job.Push(1, 1, 0.25f, 1);
  sent = job.Push(0, 1, 0.25f, 1);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(Weight(sent[0]), 0.75f);
}

TEST(ShardCoreRates, PushesOfLaterClocksDoNotChangeTheRateOfThisOne) {
  RatedJob job("lazy { staleness: 2 }");
  job.Push(0, 0, 1.0f);
  job.Push(0, 1, 2.0f);
  job.Push(0, 2, 4.0f);
  auto sent = job.Push(1, 0, 1.0f);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(Weight(sent[0]), 1.0f);
  sent = job.Push(1, 1, 2.0f, 1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(Weight(sent[0]), 3.0f);
}

TEST(ShardCoreRates, NodesThatDoNotAgreeAreNamedWithTheirRates) {
  RatedJob job("sync {}", {1, 1}, 64);
  EXPECT_TRUE(job.Push(0, 0, 0.5f).empty());
  const auto sent = job.Push(1, 0, 0.25f);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.error, ErrorCode::kConflict);
  EXPECT_EQ(TextOf(sent[0].frame),
            "node 1 chunk 0 clock 0: node 1 says learning rate 0.25, node 0 0.5");
}

TEST(ShardCoreRates, AnEmptyPushHasTheRateOfItsClockToo) {
  RatedJob job("sync {}");
  wire::Frame empty = EmptyFrame(job.record, 0, 0, 0, 0);
  empty.header.rate = 0.5f;
  EXPECT_TRUE(job.shard.Deliver(job.nodes[0], empty).empty());
  auto sent = job.Push(1, 0, 0.5f);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(Weight(sent[0]), 0.5f);
  empty = EmptyFrame(job.record, 0, 0, 1, 0);
  empty.header.rate = 2;
  job.shard.Deliver(job.nodes[0], empty);
  sent = job.Push(1, 1, 0.5f, 1);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.error, ErrorCode::kConflict);
}

TEST(ShardCoreRates, OnArrivalEachPushHasItsOwnTimesWhatItsModeTakes) {
  RatedJob plain("async {}");
  EXPECT_EQ(Weight(plain.Push(0, 0, 0.5f)[0]), 0.5f);
  EXPECT_EQ(Weight(plain.Push(1, 0, 2.0f)[0]), 2.5f);
  RatedJob damped("async { damping: INVERSE_STALENESS }");
  damped.Push(0, 0, 1.0f);
  damped.Push(0, 1, 1.0f, 1);
  EXPECT_EQ(Weight(damped.Push(1, 0, 0.5f)[0]), 2.25f) << "two versions behind: half of 0.5";
  RatedJob share("lazy { staleness: 1 apply: ON_ARRIVAL }", {1, 3});
  EXPECT_EQ(Weight(share.Push(0, 0, 0.5f)[0]), 0.125f) << "4 of a clock's 16 samples";
  RatedJob compensated("async { delay_compensation { lambda: 1 } }");
  EXPECT_EQ(Weight(compensated.Push(0, 0, 0.5f)[0]), 0.5f);
  EXPECT_EQ(Weight(compensated.Push(1, 0, 2.0f)[0]), 1.5f) << "the gradient is -1 + 1 * 0.5";
}

TEST(ShardCoreRates, AQuorumsClockHasTheMeanOfItsPushesBySamples) {
  RatedJob job("lazy { quorum { nodes: 1 } }");
  EXPECT_EQ(Weight(job.Push(0, 0, 0.1f)[0]), 0.1f) << "one rate stays as it is";
  job.Push(1, 0, 3.0f, 0, 12);  // late: answered at once, and applied with the next clock
  const auto sent = job.Push(0, 1, 1.0f, 1, 4);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(Weight(sent[0]), 0.1f + 2.5f);
}

TEST(ShardCoreRates, ARepetitionWithAnotherRateIsAnotherPush) {
  RatedJob job("sync {}");
  EXPECT_TRUE(job.Push(0, 0, 0.5f).empty());
  EXPECT_TRUE(job.Push(0, 0, 0.5f).empty());
  const auto sent = job.Push(0, 0, 0.25f);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.error, ErrorCode::kConflict);
}

TEST(ShardCoreRates, OuterAndMovingRatesStayTheJobs) {
  RatedJob local("lazy { local_steps: 2 outer { lr: 0.5 } }", {1});
  EXPECT_EQ(Weight(local.Push(0, 0, 7.0f)[0]), 0.5f);
  RatedJob elastic("async { elastic { every_steps: 2 moving_rate: 0.5 } }", {1});
  EXPECT_EQ(Weight(elastic.Push(0, 0, 7.0f)[0]), -2.0f) << "half of the way to -4";
}

TEST(ShardCoreRates, RmspropAtARateOfZeroLeavesTheWeights) {
  RatedJob job("sync {}", {1}, 1, "rmsprop_warmup { center_epochs: 4 }");
  EXPECT_EQ(Weight(job.Push(0, 0, 0.0f)[0]), 0.0f);
  EXPECT_GT(Weight(job.Push(0, 1, 0.5f, 1)[0]), 0.0f);
}

TEST(ShardCoreRates, AJobWithASchedulesRatesTakesNoOthers) {
  RatedJob job("sync {}", {1}, 32);
  job.record.set_says_rates(false);
  job.record.set_job_id(8);
  ASSERT_TRUE(job.shard.core().Install(job.record, ShardId(0)).ok());
  job.nodes[0] = job.shard.Join(job.record, 0);
  job.shard.Deliver(job.nodes[0], InitFrame(job.record, 0, 0, std::vector<float>(32, 0.0f)));
  const auto sent = job.Push(0, 0, 0.5f);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].frame.header.error, ErrorCode::kMalformed);
  EXPECT_EQ(TextOf(sent[0].frame),
            "node 0 chunk 0 clock 0: learning rate 0.5, but the job takes rates from schedule");
  EXPECT_EQ(Weight(job.Push(0, 0, 0.0f)[0]), 1000.0f);
}

}  // namespace

}  // namespace strata::server

// lazy and async: what is applied, what is answered, with exact values.
#include <cmath>
#include <random>

#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

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
                     float first_weight = 0.0f) {
    JobOptions options;
    options.ranks = ranks;
    options.elements = options.chunk_elements = 1;
    options.batch_per_rank = batch_per_rank;
    options.job_text = optimizer + " consistency { " + mode + " }";
    record = MakeRecord(options);
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

// Nodes of random speed; a model beside the shard counts what each has pushed.
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
      // Whoever may be answered has been.
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(answered[i] == pushed[i], slowest + bound >= pushed[i]) << "seed " << seed;
      }
    }
    EXPECT_GT(histogram[bound], 0u) << "the bound was never reached, seed " << seed;
  }
}

// Two nodes; the weights that each has meet those of the other's updates.
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

}  // namespace
}  // namespace strata::server

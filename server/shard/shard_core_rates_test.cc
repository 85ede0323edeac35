// Pushes that say the learning rate of their step: which rate each update has, with exact values.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::ErrorCode;
using wire::Op;

// All weights begin at 0; plain SGD, whose schedule has a rate that nobody may use.
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

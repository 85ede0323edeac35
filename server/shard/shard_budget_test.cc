#include "server/shard/shard_budget.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

namespace strata::server {
namespace {

// 3 nodes, 10 chunks of 256 floats (1 KiB) on one shard, window 4.
proto::JobRecord Record(const std::string& job_text) {
  JobOptions options;
  options.ranks = {1, 1, 1};
  options.elements = 2560;
  options.chunk_elements = 256;
  options.job_text = absl::StrCat("window: 4 schedule { base_lr: 0.5 } ", job_text);
  return MakeRecord(options);
}

std::string Formula(const std::string& job_text) {
  return ShardMemoryNeed(Record(job_text), ShardId(0))->ToString();
}

TEST(ShardBudget, OfASyncJobIsWeightsStateHeldSumsAndMessages) {
  EXPECT_EQ(Formula("optimizer { adam {} }"),
            "66.0 KiB: weights 10.0 KiB + chunk in update 1.0 KiB + optimizer state 2 x 10.0 KiB "
            "20.0 KiB + held sums (3 x 4 - 1) x 1.0 KiB 11.0 KiB + messages 2 x 3 x 4 x 1.0 KiB "
            "24.0 KiB");
}

TEST(ShardBudget, OfAJobWithCheckpointsHasTwoCutsOfWeightsAndState) {
  EXPECT_THAT(Formula("optimizer { adam {} } checkpoint { dir: '/c' every_steps: 10 }"),
              testing::HasSubstr(" + checkpoints 2 x 3 x 10.0 KiB 60.0 KiB + held sums"));
}

TEST(ShardBudget, OfAJobThatReplacesNodesHasTheWeightsOfTheClockBefore) {
  EXPECT_THAT(Formula("optimizer { sgd {} } replace { per_hour: 1 }"),
              testing::HasSubstr(" + weights of the clock before 10.0 KiB + held sums"));
  EXPECT_THAT(Formula("optimizer { sgd {} } replace { per_hour: 1 } pull { codec: FP16 }"),
              testing::HasSubstr("update 1.0 KiB + nodes' copies 3 x 10.0 KiB 30.0 KiB + held"));
  EXPECT_THAT(Formula("optimizer { sgd {} } replace { per_hour: 1 } consistency { async {} }"),
              testing::Not(testing::HasSubstr("clock before")));
}

TEST(ShardBudget, OfALazyJobHasTheClocksThatMayBeAheadToo) {
  EXPECT_EQ(Formula("optimizer { sgd {} } consistency { lazy { staleness: 3 } }"),
            "106.0 KiB: weights 10.0 KiB + chunk in update 1.0 KiB + held sums (3 x 4 - 1) x 1.0 "
            "KiB 11.0 KiB + clocks ahead 3 x 2 x 10.0 KiB 60.0 KiB + messages 2 x 3 x 4 x 1.0 KiB "
            "24.0 KiB");
}

TEST(ShardBudget, OfElasticAveragingHasTheCentersThatNodesHaveMet) {
  EXPECT_THAT(Formula("optimizer { adam {} } consistency { preset: 'easgd' }"),
              testing::HasSubstr("chunk in update 1.0 KiB + nodes' versions 3 x 10.0 KiB 30.0 KiB "
                                 "+ distance of a node 1.0 KiB + messages"));
}

TEST(ShardBudget, OfAQuorumHasThePushesOfThoseWhoAreLateToo) {
  EXPECT_EQ(Formula("optimizer { sgd {} } consistency { lazy { quorum { nodes: 2 } } }"),
            "58.0 KiB: weights 10.0 KiB + chunk in update 1.0 KiB + held sums (3 x 4 - 0) x 1.0 "
            "KiB 12.0 KiB + late pushes 1 x 10.0 KiB 10.0 KiB + late push in addition 1.0 KiB + "
            "messages 2 x 3 x 4 x 1.0 KiB 24.0 KiB");
}

TEST(ShardBudget, OfAnAsyncJobHasNoHeldSums) {
  EXPECT_EQ(Formula("optimizer { sgd {} } consistency { async {} }"),
            "35.0 KiB: weights 10.0 KiB + chunk in update 1.0 KiB + messages 2 x 3 x 4 x 1.0 KiB "
            "24.0 KiB");
}

TEST(ShardBudget, OfEncodedAnswersHasWhatTheNodesHave) {
  EXPECT_THAT(Formula("optimizer { sgd {} } pull { codec: FP16 }"),
              testing::HasSubstr(" + nodes' copies 2 x 10.0 KiB 20.0 KiB + held sums"));
  EXPECT_THAT(Formula("optimizer { sgd {} } consistency { async {} } pull { codec: TOP_K } push { "
                      "codec: INT8 }"),
              testing::HasSubstr("nodes' copies 3 x 10.0 KiB 30.0 KiB + codec's work space 4 x 1.0 "
                                 "KiB 4.0 KiB"));
}

TEST(ShardBudget, AWideWindowTakesNoMoreThanTheShardHasChunks) {
  proto::JobRecord record = Record("optimizer { sgd {} } consistency { sync {} }");
  record.mutable_job()->set_window(64);
  EXPECT_EQ(ShardMemoryNeed(record, ShardId(0))->total(), (10u + 1 + 2 * 10 + 2 * 3 * 10) << 10);
}

TEST(ShardBudget, OfARecordThatIsWrongNamesTheField) {
  proto::JobRecord record = Record("optimizer { sgd {} }");
  record.mutable_view()->clear_nodes();
  EXPECT_EQ(ShardMemoryNeed(record, ShardId(0)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The nodes' urgent chunks differ, and the lowest incomplete chunk has only one.
TEST(ShardBudget, TwoNodesMayHoldTwoWindowsButForOneChunk) {
  JobOptions options;
  options.ranks = {1, 1};
  options.elements = 2560;
  options.chunk_elements = 256;
  options.job_text = "window: 4 schedule { base_lr: 0.5 } optimizer { sgd {} }";
  const proto::JobRecord record = MakeRecord(options);
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const std::vector<float> values(256, 1.0f);
  const transport::ConnectionId nodes[] = {shard.Join(record, 0), shard.Join(record, 1)};
  for (uint32_t c = 0; c < 10; ++c) shard.Deliver(nodes[0], InitFrame(record, 0, c, values));
  const uint64_t before = shard.core().NextReports().at(JobId(7)).memory_bytes;
  for (uint32_t c : {0, 1, 2, 3}) shard.Deliver(nodes[0], PushFrame(record, 0, c, 0, values, 4));
  for (uint32_t c : {7, 8, 9}) shard.Deliver(nodes[1], PushFrame(record, 1, c, 0, values, 4));
  EXPECT_EQ(shard.core().NextReports().at(JobId(7)).memory_bytes - before, 7u << 10);
  EXPECT_THAT(ShardMemoryNeed(record, ShardId(0))->ToString(),
              testing::HasSubstr("held sums (2 x 4 - 1) x 1.0 KiB 7.0 KiB"));
}

// Two of three nodes push every permitted chunk of every clock; the measured bytes stay below the
// formula without messages.
TEST(ShardBudget, WhatAShardHoldsStaysWithinIt) {
  const proto::JobRecord record =
      Record("optimizer { adam {} } consistency { lazy { staleness: 2 } }");
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  EXPECT_EQ(shard.core().NextReports().at(JobId(7)).memory_bytes, 0u);
  const std::vector<float> values(256, 1.0f);
  transport::ConnectionId nodes[] = {shard.Join(record, 0), shard.Join(record, 1)};
  for (uint32_t c = 0; c < 10; ++c) shard.Deliver(nodes[0], InitFrame(record, 0, c, values));
  EXPECT_EQ(shard.core().NextReports().at(JobId(7)).memory_bytes, 30u << 10);
  for (uint64_t clock = 0; clock < 3; ++clock) {
    for (uint32_t c = 0; c < 10; ++c) {
      if (clock == 2 && c >= 4) continue;  // the window
      for (uint32_t n : {0, 1}) {
        shard.Deliver(nodes[n], PushFrame(record, n, c, clock, values, 4));
      }
    }
  }
  // The tree keeps one sum of leaves 0 and 1 of three, or both of them.
  const uint64_t held = shard.core().NextReports().at(JobId(7)).memory_bytes;
  EXPECT_GT(held, 30u << 10);
  const MemoryFormula formula = *ShardMemoryNeed(record, ShardId(0));
  const uint64_t messages = formula.parts.back().bytes;
  EXPECT_LE(held, formula.total() - messages);
}

TEST(ShardBudget, ATraceTakesAFixedAmount) {
  JobOptions options;
  const uint64_t before = ShardMemoryNeed(MakeRecord(options), ShardId(0))->total();
  options.job_text += " trace { steps: 1000 }";
  const proto::JobRecord record = MakeRecord(options);
  EXPECT_EQ(ShardMemoryNeed(record, ShardId(0))->total(), before + (512 << 10));
  ShardHarness shard([] { return absl::UnixEpoch(); });
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  EXPECT_EQ(shard.core().NextReports().at(JobId(7)).memory_bytes, 512u << 10);
}

}  // namespace
}  // namespace strata::server

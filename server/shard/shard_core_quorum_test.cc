// Quorum: which pushes a clock takes, when it closes and who is answered, with exact values.
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::Op;

// One weight that begins at 0, plain SGD with rate 1: it falls by the mean of each clock.
struct OneWeight {
  proto::JobRecord record;
  ShardHarness shard;
  std::vector<ConnectionId> nodes;
  std::vector<uint64_t> clocks;  // pushes of each node

  OneWeight(const std::string& quorum, size_t count) : clocks(count) {
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
  // The last push once more.
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
  OneWeight job("nodes: 2", 3);
  EXPECT_EQ(AnswersOf(job.Push(2, -4, 2, 0)), Answers());
  EXPECT_EQ(AnswersOf(job.Push(0, -8, 4, 0)), Answers({{0, 0, 1, 0, 2.0f}, {2, 0, 1, 0, 2.0f}}));
}

TEST(ShardCoreQuorum, ALatePushCountsInTheNextClockAndItsNodeDoesNotWait) {
  OneWeight job("nodes: 2", 3);
  job.Push(0, -4, 4, 0);
  job.Push(1, -4, 4, 0);  // the weight is 1, of version 1
  EXPECT_EQ(AnswersOf(job.Push(2, -12, 4, 0)), Answers({{2, 0, 1, 1, 1.0f}}));
  EXPECT_EQ(AnswersOf(job.Push(0, -8, 4, 1)), Answers()) << "one of two";
  // (12 + 8 + 16) / 12 more.
  EXPECT_EQ(AnswersOf(job.Push(1, -16, 4, 1)), Answers({{0, 1, 2, 0, 4.0f}, {1, 1, 2, 0, 4.0f}}));
}

TEST(ShardCoreQuorum, OnlyThoseInTimeMakeTheQuorum) {
  OneWeight job("nodes: 2", 4);
  job.Push(0, 0, 4, 0);
  job.Push(1, 0, 4, 0);
  EXPECT_EQ(job.Push(2, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(3, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(2, 0, 4, 0).size(), 1u) << "late again, in the same clock";
  EXPECT_EQ(job.Push(2, 0, 4, 1).size(), 0u) << "and now in time";
  EXPECT_EQ(job.Push(3, 0, 4, 1).size(), 2u);
}

TEST(ShardCoreQuorum, AllNodesCloseAClockWithoutItsGrace) {
  OneWeight job("nodes: 1 grace_ms: 100", 2);
  job.Push(0, -4, 4, 0);
  EXPECT_EQ(job.Push(1, -4, 4, 0).size(), 2u);
  EXPECT_EQ(job.shard.core().deadline(), absl::InfiniteFuture());
}

TEST(ShardCoreQuorum, TheGraceCountsFromTheNodeThatMakesTheQuorum) {
  OneWeight job("nodes: 2 grace_ms: 100", 4);
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
  OneWeight job("nodes: 1 grace_ms: 100", 3);
  job.Push(0, 0, 4, 0);
  EXPECT_EQ(job.shard.PassTime(absl::Milliseconds(100)).size(), 1u);
  EXPECT_EQ(job.Push(1, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(2, 0, 4, 0).size(), 1u);
  EXPECT_EQ(job.Push(0, 0, 4, 1).size(), 1u) << "all are in it";
}

TEST(ShardCoreQuorum, WhereFewerGoOnAllOfThemMakeTheQuorum) {
  OneWeight job("nodes: 3 grace_ms: 100", 4);
  job.Push(3, -4, 4, 0);
  job.Push(0, -4, 4, 0);
  EXPECT_TRUE(job.Retire(1).empty());
  EXPECT_EQ(AnswersOf(job.Retire(2)), Answers({{0, 0, 1, 0, 1.0f}, {3, 0, 1, 0, 1.0f}}));
  job.Retire(0);
  EXPECT_EQ(AnswersOf(job.Push(3, -4, 4, 1)), Answers({{3, 1, 2, 0, 2.0f}}));
}

TEST(ShardCoreQuorum, WhatWasLateForTheLastClockIsInTheFinalWeights) {
  OneWeight job("nodes: 1", 2);
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
  OneWeight job("nodes: 2", 3);
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
  OneWeight job("nodes: 3", 3);
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
  OneWeight job("nodes: 2", 3);
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

}  // namespace
}  // namespace strata::server

#include "worker/exchange/server/shard_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/testing/exchange_world.h"

namespace strata::worker {
namespace {

using ::testing::ElementsAre;
using wire::Op;

class ShardLinkTest : public ::testing::Test {
 protected:
  ShardLinkTest() : link_(LinkId(0), "tcp://s0:1", {.job = 1}, {}) {
    link_.Start(now_, &actions_);
    Connect();
  }

  void Connect() {
    const transport::ConnectionId connection(++connections_);
    link_.OnConnected(connection, now_, &actions_);
    Hear(Op::kHelloOk);
  }
  void Hear(Op op) {
    wire::Frame frame;
    frame.header.op = op;
    EXPECT_TRUE(link_.OnFrame(frame, now_, &actions_).ok());
  }
  // Returns the seconds between sendings, `times` times, without any answer.
  std::vector<double> Gaps(int times) {
    std::vector<double> gaps;
    for (int i = 0; i < times; ++i) {
      actions_.clear();
      const absl::Time due = link_.deadline();
      gaps.push_back(absl::ToDoubleSeconds(due - now_));
      now_ = due;
      EXPECT_TRUE(link_.OnTime(now_, &actions_).ok());
      EXPECT_EQ(actions_.size(), 1u);
    }
    return gaps;
  }

  absl::Time now_ = absl::UnixEpoch();
  uint64_t connections_ = 0;
  WireActions actions_;
  ShardLink link_;
};

// On a link that takes longer than resend_after for a window of pushes, repetitions would otherwise
// saturate it for good.
TEST_F(ShardLinkTest, SilenceMayLastTwiceAsLongEachTime) {
  link_.Ask({.op = Op::kPushPull}, Bytes(), now_, &actions_);
  EXPECT_THAT(Gaps(6), ElementsAre(5, 10, 20, 40, 80, 80));
  Hear(Op::kAnswer);
  link_.Ask({.op = Op::kPushPull, .clock = 1}, Bytes(), now_, &actions_);
  EXPECT_THAT(Gaps(1), ElementsAre(80));
}

TEST_F(ShardLinkTest, ANewConnectionIsTrustedAnew) {
  link_.Ask({.op = Op::kPushPull}, Bytes(), now_, &actions_);
  EXPECT_THAT(Gaps(3), ElementsAre(5, 10, 20));
  link_.OnLost(absl::UnavailableError("gone"), now_, &actions_);
  Connect();
  EXPECT_THAT(Gaps(2), ElementsAre(5, 10));
}

TEST_F(ShardLinkTest, ARepetitionSaysAllThatTheFirstSendingSaid) {
  actions_.clear();
  wire::Header push = {.op = Op::kPushPull, .clock = 3, .sample_count = 8};
  push.rate = 0.1f;
  link_.Ask(push, Bytes(), now_, &actions_);
  wire::Header first = actions_.at(0).frame.header;
  EXPECT_EQ(first.rate, 0.1f);
  Gaps(1);
  first.flags |= wire::kFlagReplay;
  EXPECT_EQ(actions_.at(0).frame.header, first);
}

TEST_F(ShardLinkTest, WhatTheShardPutOffIsNoSilence) {
  link_.Ask({.op = Op::kPushPull}, Bytes(), now_, &actions_);
  Hear(Op::kRetry);
  EXPECT_THAT(Gaps(2), ElementsAre(0.05, 5));
  Hear(Op::kRetry);
  EXPECT_THAT(Gaps(2), ElementsAre(0.1, 10));
}

// Nodes whose shards move while they train.

constexpr uint32_t kNodes = 3, kChunks = 9, kShards = 2;
constexpr uint64_t kClocks = 6;

// Each element becomes 100 plus the sums of all nodes over all clocks.
TEST(ShardMoveTest, EachPushCountsOnceThoughEveryShardMovesTwice) {
  float expected = 100;
  for (uint64_t t = 0; t < kClocks; ++t) expected += kNodes * (kNodes + 1) / 2 * (t + 1);
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ExchangeWorld world(
        seed, WorldRecord(kNodes, kChunks, kShards, 3, 1 + seed % 2),
        {.drop = seed % 2 == 0 ? 0 : 0.05, .duplicate = 0.1, .break_both = 0.01},
        [](uint32_t node, uint64_t clock) { return (node + 1) * (clock + 1); }, 100);
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      for (uint32_t generation = 1; generation <= 2; ++generation) {
        world.MoveShard(shard, absl::StrCat("tcp://shard", shard, ".", generation), generation,
                        absl::Milliseconds(seed % 40 * generation + shard));
      }
    }
    const absl::Status status = world.Run(kClocks);
    ASSERT_TRUE(status.ok()) << status;
    for (uint32_t node = 0; node < kNodes; ++node) {
      EXPECT_EQ(world.node(node).landed(), std::vector<uint64_t>(kChunks, kClocks));
      for (const float weight : world.node(node).weights()) EXPECT_EQ(weight, expected);
    }
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      EXPECT_EQ(world.shard(shard).faults(), std::vector<std::string>());
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

class ShardLinkMoveTest : public testing::Test {
 protected:
  ShardLinkMoveTest() : link_(LinkId(0), "tcp://s0:1", {.job = 1, .generation = 4}, {}) {
    link_.Start(now_, &actions_);
    link_.OnConnected(transport::ConnectionId(1), now_, &actions_);
    wire::Frame frame;
    frame.header.op = Op::kHelloOk;
    EXPECT_TRUE(link_.OnFrame(frame, now_, &actions_).ok());
    link_.Ask({.op = Op::kPushPull, .clock = 7}, Bytes(), now_, &actions_);
    actions_.clear();
  }

  const absl::Time now_ = absl::UnixEpoch();
  WireActions actions_;
  ShardLink link_;
};

TEST_F(ShardLinkMoveTest, WhatIsUnansweredIsAskedThereInTheNewGeneration) {
  link_.Move("tcp://s1:1", 5, now_, &actions_);
  ASSERT_EQ(actions_.size(), 2u);
  EXPECT_EQ(actions_[0].kind, WireAction::Kind::kClose);
  EXPECT_EQ(actions_[1].kind, WireAction::Kind::kConnect);
  EXPECT_EQ(link_.address(), "tcp://s1:1");
  EXPECT_FALSE(link_.Owns(transport::ConnectionId(1)));
  actions_.clear();
  link_.OnConnected(transport::ConnectionId(2), now_, &actions_);
  wire::Frame frame;
  frame.header.op = Op::kHelloOk;
  EXPECT_TRUE(link_.OnFrame(frame, now_, &actions_).ok());
  ASSERT_EQ(actions_.size(), 3u);  // HELLO, who is there is admitted, the push
  EXPECT_EQ(actions_[0].frame.header.generation, 5u);
  EXPECT_EQ(actions_[2].frame.header.op, Op::kPushPull);
  EXPECT_EQ(actions_[2].frame.header.clock, 7u);
  EXPECT_EQ(actions_[2].frame.header.generation, 5u);
}

TEST_F(ShardLinkMoveTest, OldNewsChangesNothing) {
  for (const uint32_t generation : {3, 4}) link_.Move("tcp://s1:1", generation, now_, &actions_);
  EXPECT_TRUE(actions_.empty());
  EXPECT_EQ(link_.address(), "tcp://s0:1");
}

TEST_F(ShardLinkMoveTest, WhereOnlyTheGenerationIsNewTheConnectionStays) {
  link_.Move("tcp://s0:1", 5, now_, &actions_);
  EXPECT_TRUE(actions_.empty());
  EXPECT_TRUE(link_.OnTime(link_.deadline(), &actions_).ok());
  ASSERT_EQ(actions_.size(), 1u);
  EXPECT_EQ(actions_[0].frame.header.generation, 5u);
}

// The server's next process listens at the same address, and does not know the job.
TEST(ShardLinkMayMove, WhereTheShardMayMoveItsAbsenceIsNoEnd) {
  const absl::Time now = absl::UnixEpoch();
  wire::Frame refusal;
  refusal.header.op = Op::kError;
  refusal.header.error = wire::ErrorCode::kWrongJob;
  for (const bool may_move : {false, true}) {
    WireActions actions;
    ShardLink link(LinkId(0), "tcp://s0:1", {.job = 1, .generation = 4}, {}, may_move);
    link.Start(now, &actions);
    link.OnConnected(transport::ConnectionId(1), now, &actions);
    EXPECT_EQ(link.OnFrame(refusal, now, &actions).ok(), may_move);
    if (!may_move) continue;
    EXPECT_FALSE(link.Owns(transport::ConnectionId(1)));
    actions.clear();
    EXPECT_TRUE(link.OnTime(now + LinkTiming().backoff_min, &actions).ok());
    ASSERT_EQ(actions.size(), 1u);
    EXPECT_EQ(actions[0].kind, WireAction::Kind::kConnect);
    // Any other refusal stays final.
    link.OnConnected(transport::ConnectionId(2), now, &actions);
    refusal.header.error = wire::ErrorCode::kWrongVersion;
    EXPECT_EQ(link.OnFrame(refusal, now, &actions).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace strata::worker

#include "worker/exchange/server/shard_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

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
  // Seconds between one sending and the next, so many times, nothing being heard.
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

// On a link that takes longer than resend_after for a window of pushes, repetitions would else
// fill it for good.
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

}  // namespace
}  // namespace strata::worker

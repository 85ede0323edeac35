#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/frame_backlog.h"
#include "server/shard/waiting_pulls.h"

namespace strata::server {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using transport::ConnectionId;
using Result = FrameBacklog::Result;

constexpr ConnectionId kOne(1), kOther(2), kGone(3);

// Takes a limited total of frames.
class FullEndpoint final : public transport::Endpoint {
 public:
  absl::Status Send(ConnectionId connection, const wire::Frame& frame) override {
    if (connection == kGone) return absl::NotFoundError("gone");
    if (room == 0) return absl::ResourceExhaustedError("full");
    --room;
    sent.emplace_back(connection.value(), frame.header.chunk);
    return absl::OkStatus();
  }
  absl::StatusOr<int> Listen(const std::string&) override { return 0; }
  absl::StatusOr<ConnectionId> Connect(const std::string&) override { return kOne; }
  void Poll(absl::Duration, std::vector<transport::Event>*) override {}
  void WatchFd(int) override {}
  void Close(ConnectionId) override {}
  void Wake() override {}

  size_t room = 0;
  std::vector<std::pair<uint64_t, uint32_t>> sent;
};

wire::Frame Chunk(uint32_t chunk) {
  wire::Frame frame;
  frame.header.chunk = chunk;
  return frame;
}

class FrameBacklogTest : public ::testing::Test {
 protected:
  FullEndpoint endpoint_;
  FrameBacklog backlog_{&endpoint_, 2};
};

TEST_F(FrameBacklogTest, WhatWaitsGoesInOrderBeforeWhatComesLater) {
  endpoint_.room = 1;
  EXPECT_EQ(backlog_.Send(kOne, Chunk(0)), Result::kSent);
  EXPECT_EQ(backlog_.Send(kOne, Chunk(1)), Result::kFull);
  endpoint_.room = 2;
  EXPECT_EQ(backlog_.Send(kOne, Chunk(2)), Result::kWaits) << "there is room, but not its turn";
  EXPECT_EQ(backlog_.Send(kOther, Chunk(7)), Result::kSent);
  backlog_.SendWaiting();
  EXPECT_FALSE(backlog_.empty());
  endpoint_.room = 1;
  backlog_.SendWaiting();
  EXPECT_TRUE(backlog_.empty());
  EXPECT_THAT(endpoint_.sent, ElementsAre(Pair(1, 0), Pair(2, 7), Pair(1, 1), Pair(1, 2)));
}

TEST_F(FrameBacklogTest, SoManyWaitPerConnectionAndNoMore) {
  EXPECT_EQ(backlog_.Send(kOne, Chunk(0)), Result::kFull);
  EXPECT_EQ(backlog_.Send(kOne, Chunk(1)), Result::kWaits);
  EXPECT_EQ(backlog_.Send(kOne, Chunk(2)), Result::kDropped);
  EXPECT_EQ(backlog_.Send(kOther, Chunk(3)), Result::kFull);
  endpoint_.room = 9;
  backlog_.SendWaiting();
  EXPECT_THAT(endpoint_.sent, ElementsAre(Pair(1, 0), Pair(1, 1), Pair(2, 3)));
}

TEST_F(FrameBacklogTest, NothingGoesToConnectionsThatAreGone) {
  EXPECT_EQ(backlog_.Send(kGone, Chunk(0)), Result::kSent);
  backlog_.Send(kOne, Chunk(1));
  backlog_.Forget(kOne);
  EXPECT_TRUE(backlog_.empty());
  endpoint_.room = 9;
  backlog_.SendWaiting();
  EXPECT_THAT(endpoint_.sent, IsEmpty());
}

WaitingPulls::Pull Of(size_t node, uint64_t connection, uint64_t clock) {
  WaitingPulls::Pull pull{.connection = ConnectionId(connection), .node = node, .frame = {}};
  pull.frame.header.clock = clock;
  return pull;
}

TEST(WaitingPulls, AreTakenOnceByChunk) {
  WaitingPulls pulls;
  pulls.Add(3, Of(1, 11, 5));
  pulls.Add(3, Of(0, 10, 4));
  pulls.Add(4, Of(0, 10, 6));
  const std::vector<WaitingPulls::Pull> taken = pulls.Take(3);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].frame.header.clock, 4u);
  EXPECT_EQ(taken[1].frame.header.clock, 5u);
  EXPECT_TRUE(pulls.Take(3).empty());
  EXPECT_EQ(pulls.Take(4).size(), 1u);
}

TEST(WaitingPulls, WhatANodeAsksAgainTakesThePlaceOfWhatItHasAskedBefore) {
  WaitingPulls pulls;
  pulls.Add(0, Of(1, 11, 5));
  pulls.Add(0, Of(1, 12, 7));
  const std::vector<WaitingPulls::Pull> taken = pulls.Take(0);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].connection, ConnectionId(12));
  EXPECT_EQ(taken[0].frame.header.clock, 7u);
}

TEST(WaitingPulls, GoWithTheirConnection) {
  WaitingPulls pulls;
  pulls.Add(0, Of(0, 10, 5));
  pulls.Add(0, Of(1, 11, 5));
  pulls.Add(1, Of(0, 10, 5));
  pulls.Forget(ConnectionId(10));
  EXPECT_TRUE(pulls.Take(1).empty());
  EXPECT_EQ(pulls.Take(0).size(), 1u);
}

}  // namespace

}  // namespace strata::server

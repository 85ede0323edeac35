#include "server/shard/frames/waiting_pulls.h"

#include <gtest/gtest.h>

namespace strata::server {
namespace {

using transport::ConnectionId;

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

#include "tests/sim/check/shard_copies.h"

#include <gtest/gtest.h>

namespace strata::sim {
namespace {

using wire::Op;

constexpr uint32_t kChunk = 3;

wire::Header Push(uint32_t node, uint64_t clock) {
  wire::Header header;
  header.op = Op::kPushPull;
  header.node = node;
  header.chunk = kChunk;
  header.clock = clock;
  return header;
}

wire::Header Sum(uint64_t clock) {
  wire::Header header = Push(0, clock);
  header.op = Op::kApply;
  return header;
}

wire::Header Retire(uint32_t node) {
  wire::Header header;
  header.op = Op::kRetire;
  header.node = node;
  return header;
}

wire::Frame Said(wire::Header header, uint64_t sequence) {
  header.sequence = sequence;
  return {.header = header};
}

wire::Frame Part(uint64_t sequence) {
  wire::Header header = Push(0, 0);
  header.op = Op::kCopy;
  return Said(header, sequence);
}

// A copy of the chunk in which node 0 has made five pushes and node 1 four, in two frames.
proto::ChunkCopy Head() {
  proto::ChunkCopy head;
  head.set_seeded(true);
  head.add_vector_bytes(8);
  for (const uint64_t received : {5, 4}) head.add_nodes()->set_received(received);
  return head;
}

NextCopy WithSentChunk() {
  NextCopy next(/*generation=*/7, /*process=*/2, /*retired=*/{1});
  next.OnCopySent(kChunk, Head());
  return next;
}

TEST(NextCopyTest, WhatIsNotSaidYetWillBeInTheCopy) {
  const NextCopy next(7, 2, {});
  EXPECT_FALSE(next.Lacks(Push(0, 5)));
  EXPECT_FALSE(next.IsInCopy(Push(0, 5)));
}

TEST(NextCopyTest, ChangesBeforeTheCopyAreInItAndLaterOnesAreLackedUntilTheyAreTaken) {
  NextCopy next = WithSentChunk();
  EXPECT_FALSE(next.Lacks(Push(0, 4)));
  EXPECT_TRUE(next.Lacks(Push(0, 5)));
  EXPECT_TRUE(next.Lacks(Push(1, 4)));
  EXPECT_EQ(next.OnTaken(Part(1)), "");
  EXPECT_EQ(next.OnTaken(Part(2)), "");
  EXPECT_EQ(next.OnTaken(Said(Push(1, 4), 3)), "");
  EXPECT_FALSE(next.Lacks(Push(1, 4)));
  EXPECT_TRUE(next.Lacks(Push(0, 5)));
  EXPECT_EQ(next.taken(), 3u);
}

TEST(NextCopyTest, TheSumOfAClockIsInTheCopyOnceAllHadPushedIt) {
  const NextCopy next = WithSentChunk();
  EXPECT_FALSE(next.Lacks(Sum(3)));
  EXPECT_TRUE(next.Lacks(Sum(4)));
}

TEST(NextCopyTest, ARetirementIsSaidBeforeAnyChunkButForThoseThatWereKnown) {
  const NextCopy next(7, 2, {1});
  EXPECT_FALSE(next.Lacks(Retire(1)));
  EXPECT_TRUE(next.Lacks(Retire(0)));
}

TEST(NextCopyTest, ANodeThatJoinsAgainRetiresOnceMore) {
  NextCopy next(7, 2, {0, 1});
  next.OnJoined(1);
  EXPECT_TRUE(next.Lacks(Retire(1)));
  EXPECT_FALSE(next.Lacks(Retire(0)));
}

TEST(NextCopyTest, ItIsWholeWithTheLastPartOfTheLastChunk) {
  NextCopy next = WithSentChunk();
  EXPECT_EQ(next.OnTaken(Part(1)), "");
  EXPECT_EQ(next.OnTaken(Part(1)), "");  // said again
  EXPECT_FALSE(next.IsWhole(1));
  EXPECT_EQ(next.OnTaken(Part(2)), "");
  EXPECT_TRUE(next.IsWhole(1));
  EXPECT_FALSE(next.IsWhole(2));
  EXPECT_EQ(next.OnTaken(Part(3)), "a copy of chunk 3 that nobody has said");
}

TEST(NextCopyTest, WhatTheModelHasTakenIsNotAheadOfIt) {
  NextCopy next = WithSentChunk();
  EXPECT_EQ(next.OnTaken(Said(Push(0, 5), 1)), "");
  EXPECT_EQ(next.OnTaken(Said(Push(1, 4), 2)), "");
  next.Forget(Push(0, 5));
  ASSERT_EQ(next.ahead().size(), 1u);
  EXPECT_EQ(next.ahead()[0].header.node, 1u);
}

}  // namespace
}  // namespace strata::sim

#include "server/shard/chunk/quorum_clock.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "gtest/gtest.h"
#include "server/shard/chunk/accumulator_leaves.h"

namespace strata::server {
namespace {

constexpr size_t kQuorumClockElements = 3;

std::vector<float> ToFloats(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

TEST(QuorumClock, HoldsWhoWaitsAndWhoWasLateUntilItCloses) {
  BufferPool pool;
  QuorumClock clock(kernels::Cpu(), pool, 4, kQuorumClockElements);
  EXPECT_TRUE(clock.empty());
  const std::vector<float> ones(kQuorumClockElements, 1.0f), twos(kQuorumClockElements, 2.0f);
  clock.Join(2, Addend(View(ones)), {3});
  clock.JoinLate(0, Addend(View(twos)), {4});
  EXPECT_TRUE(clock.Waits(2));
  EXPECT_TRUE(clock.Holds(2));
  EXPECT_FALSE(clock.Waits(0));
  EXPECT_TRUE(clock.Holds(0));
  EXPECT_FALSE(clock.Holds(1));
  EXPECT_EQ(clock.waiting(), 1u);
  EXPECT_EQ(clock.samples(), 7u);
  EXPECT_EQ(clock.held(), 2u);
  EXPECT_EQ(clock.held_bytes(), 2 * kQuorumClockElements * sizeof(float));
  EXPECT_EQ(ToFloats(clock.Close()), std::vector<float>(kQuorumClockElements, 3.0f));
  EXPECT_TRUE(clock.empty());
  EXPECT_FALSE(clock.Holds(2));
  EXPECT_EQ(clock.samples(), 0u);
  EXPECT_EQ(clock.held_bytes(), 0u);
}

TEST(QuorumClock, ANodeMayBeLateTwiceAndThenInTime) {
  BufferPool pool;
  QuorumClock clock(kernels::Cpu(), pool, 2, kQuorumClockElements);
  const std::vector<float> ones(kQuorumClockElements, 1.0f), twos(kQuorumClockElements, 2.0f);
  clock.JoinLate(1, Addend(View(ones)), {1});
  clock.JoinLate(1, Addend(View(twos)), {1});
  EXPECT_EQ(clock.held(), 1u);
  clock.Join(1, Addend(View(twos)), {1});
  EXPECT_EQ(clock.samples(), 3u);
  EXPECT_EQ(ToFloats(clock.Close()), std::vector<float>(kQuorumClockElements, 5.0f));
}

TEST(QuorumClock, EmptyPushesCountAndAddNothing) {
  BufferPool pool;
  QuorumClock clock(kernels::Cpu(), pool, 2, kQuorumClockElements);
  clock.JoinLate(0, Addend(), {0});
  clock.JoinLate(0, Addend(), {0});
  clock.Join(1, Addend(), {2});
  EXPECT_FALSE(clock.empty());
  EXPECT_EQ(clock.held(), 0u);
  EXPECT_EQ(clock.samples(), 2u);
  EXPECT_TRUE(clock.Close().empty());
}

// With all nodes in time the sum has sync's bits; with some, it does not depend on the order of
// arrival.
TEST(QuorumClock, TheSumDoesNotDependOnTheOrderOfArrival) {
  constexpr size_t kNodes = 7, kMany = 65;
  const std::vector<std::vector<float>> leaves = MakeLeaves(2 * kNodes, kMany);
  BufferPool pool;
  const auto tree = CreateAccumulator(proto::Addition::TREE, kernels::Cpu(), pool, kNodes, kMany);
  for (size_t i = 0; i < kNodes; ++i) tree->Add(i, Addend(View(leaves[i])));
  const std::vector<float> of_all = ToFloats(tree->Finish());
  std::vector<float> of_some;
  std::mt19937 random(1);
  std::vector<size_t> order(kNodes);
  for (size_t i = 0; i < kNodes; ++i) order[i] = i;
  for (int round = 0; round < 50; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    QuorumClock clock(kernels::Cpu(), pool, kNodes, kMany);
    for (const size_t i : order) clock.Join(i, Addend(View(leaves[i])), {1});
    EXPECT_EQ(ToFloats(clock.Close()), of_all);
    for (const size_t i : order) {
      if (i % 3 == 0) clock.Join(i, Addend(View(leaves[i])), {1});
      if (i % 2 == 0) clock.JoinLate(i, Addend(View(leaves[kNodes + i])), {1});
    }
    const std::vector<float> sum = ToFloats(clock.Close());
    if (round == 0) of_some = sum;
    EXPECT_EQ(sum, of_some);
  }
}

}  // namespace
}  // namespace strata::server

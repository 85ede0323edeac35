#include "server/shard/chunk/accumulator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "common/job/all_reduce.h"
#include "gtest/gtest.h"
#include "kernels/testing/reference.h"
#include "server/shard/chunk/accumulator_leaves.h"

namespace strata::server {

namespace {

constexpr size_t kTreeElements = 19;

std::vector<float> ReferenceSum(const std::vector<std::vector<float>>& leaves) {
  std::vector<const float*> pointers;
  for (const auto& leaf : leaves) pointers.push_back(leaf.data());
  std::vector<float> sum(kTreeElements);
  kernels::reference::Sum(pointers, sum.data(), kTreeElements);
  return sum;
}

void ExpectSameBits(const Bytes& got, const std::vector<float>& expected) {
  ASSERT_EQ(got.size(), expected.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size()), 0);
}

TEST(TreeAccumulator, EveryArrivalOrderGivesTheBitsOfTheTree) {
  BufferPool pool;
  for (size_t count = 1; count <= 6; ++count) {
    const auto leaves = MakeLeaves(count, kTreeElements), copies = leaves;
    const std::vector<float> expected = ReferenceSum(leaves);
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    do {
      TreeAccumulator sum(kernels::Cpu(), pool, count, kTreeElements);
      for (size_t leaf : order) sum.Add(leaf, View(leaves[leaf]));
      ExpectSameBits(sum.Finish(), expected);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(leaves, copies) << "a leaf was written to";
  }
}

TEST(TreeAccumulator, LeavesThatDoNotComeOrAreEmptyAddNothing) {
  BufferPool pool;
  const auto leaves = MakeLeaves(7, kTreeElements);
  TreeAccumulator sum(kernels::Cpu(), pool, 7, kTreeElements);
  sum.Add(5, View(leaves[5]));
  sum.Add(0, Bytes());
  sum.Add(1, View(leaves[1]));
  sum.Add(2, View(leaves[2]));
  // ((-, 1), (2, -)), ((-, 5), -)
  std::vector<float> expected(kTreeElements);
  for (size_t i = 0; i < kTreeElements; ++i) {
    expected[i] = (leaves[1][i] + leaves[2][i]) + leaves[5][i];
  }
  ExpectSameBits(sum.Finish(), expected);
  EXPECT_EQ(sum.held(), 0u);
}

TEST(TreeAccumulator, NothingAtAllSumsToNothing) {
  BufferPool pool;
  TreeAccumulator sum(kernels::Cpu(), pool, 3, kTreeElements);
  sum.Add(1, Bytes());
  EXPECT_TRUE(sum.Finish().empty());
}

TEST(TreeAccumulator, HoldsAtMostHalfOfTheLeaves) {
  BufferPool pool;
  std::mt19937 random(4);
  for (size_t count = 1; count <= 33; ++count) {
    const auto leaves = MakeLeaves(count, kTreeElements);
    for (int round = 0; round < 20; ++round) {
      std::vector<size_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      TreeAccumulator sum(kernels::Cpu(), pool, count, kTreeElements);
      for (size_t leaf : order) {
        sum.Add(leaf, View(leaves[leaf]));
        ASSERT_LE(sum.held(), (count + 1) / 2);
      }
      ASSERT_EQ(sum.held(), 1u);
      ExpectSameBits(sum.Finish(), ReferenceSum(leaves));
    }
  }
}

Addend Unchecked(const std::vector<float>& values) {
  Addend addend(View(values));
  addend.unchecked = true;
  return addend;
}

// In every order of arrival and for all sets of bad leaves: they are found by the end, do not
// affect the sum of the others, and once they have come again the sum has the bits of the tree.
TEST(TreeAccumulator, TakesOutLeavesThatAreNotFiniteInEveryOrder) {
  BufferPool pool;
  for (size_t count = 1; count <= 5; ++count) {
    const auto leaves = MakeLeaves(count, kTreeElements);
    for (size_t bad_mask = 1; bad_mask < size_t{1} << count; ++bad_mask) {
      std::vector<size_t> order(count), bad;
      for (size_t leaf = 0; leaf < count; ++leaf) {
        if (bad_mask >> leaf & 1) bad.push_back(leaf);
      }
      std::iota(order.begin(), order.end(), 0);
      do {
        TreeAccumulator sum(kernels::Cpu(), pool, count, kTreeElements);
        std::vector<std::vector<float>> brought = leaves;
        for (size_t leaf : bad) brought[leaf][leaf * 3] = leaf % 2 == 0 ? NAN : -INFINITY;
        std::vector<size_t> found;
        const auto note = [&](const std::vector<size_t>& more) {
          found.insert(found.end(), more.begin(), more.end());
        };
        for (size_t leaf : order) note(sum.Add(leaf, Unchecked(brought[leaf])));
        note(sum.Check());
        std::sort(found.begin(), found.end());
        ASSERT_EQ(found, bad);
        for (size_t leaf : bad) note(sum.Add(leaf, Unchecked(leaves[leaf])));
        note(sum.Check());
        ASSERT_EQ(found.size(), bad.size());
        ExpectSameBits(sum.Finish(), ReferenceSum(leaves));
      } while (std::next_permutation(order.begin(), order.end()));
    }
  }
}

TEST(TreeAccumulator, ASumOfFiniteLeavesThatOverflowsIsNobodysFault) {
  BufferPool pool;
  const std::vector<float> large(kTreeElements, 3e38f);
  TreeAccumulator sum(kernels::Cpu(), pool, 3, kTreeElements);
  for (size_t leaf : {0, 1, 2}) EXPECT_TRUE(sum.Add(leaf, Unchecked(large)).empty());
  EXPECT_TRUE(sum.Check().empty());
  ExpectSameBits(sum.Finish(), std::vector<float>(kTreeElements, INFINITY));
}

TEST(TreeAccumulator, ALeafBesideEmptyOnesIsCheckedBeforeTheSumIsGiven) {
  BufferPool pool;
  std::vector<float> bad(kTreeElements, 1.0f);
  bad[7] = NAN;
  for (size_t leaf : {0, 1, 2}) {
    TreeAccumulator sum(kernels::Cpu(), pool, 3, kTreeElements);
    std::vector<size_t> found;
    for (size_t i : {2, 1, 0}) {
      for (size_t one : sum.Add(i, i == leaf ? Unchecked(bad) : Addend())) found.push_back(one);
    }
    for (size_t one : sum.Check()) found.push_back(one);
    EXPECT_EQ(found, std::vector<size_t>{leaf});
    EXPECT_TRUE(sum.Finish().empty());
  }
}

constexpr size_t kElements = 100;

// Sums element by element, starting at the leaf after the slice's own.
std::vector<float> ByHand(const std::vector<std::vector<float>>& leaves) {
  const auto n = static_cast<uint32_t>(leaves.size());
  std::vector<float> sum(kElements);
  for (uint32_t i = 0; i < kElements; ++i) {
    uint32_t slice = 0;
    while (SliceStart(kElements, n, slice + 1) <= i) ++slice;
    sum[i] = leaves[(slice + 1) % n][i];
    for (uint32_t k = 2; k <= n; ++k) sum[i] += leaves[(slice + k) % n][i];
  }
  return sum;
}

TEST(RingAccumulator, EveryArrivalOrderGivesTheBitsOfTheRing) {
  BufferPool pool;
  for (size_t count = 1; count <= 5; ++count) {
    const auto leaves = MakeLeaves(count, kElements), copies = leaves;
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    do {
      RingAccumulator sum(kernels::Cpu(), pool, count, kElements);
      for (size_t leaf : order) sum.Add(leaf, View(leaves[leaf]));
      EXPECT_EQ(sum.held(), count);
      const Bytes got = sum.Finish();
      EXPECT_EQ(std::vector<float>(got.floats(), got.floats() + got.float_count()), ByHand(leaves));
      EXPECT_EQ(sum.held(), 0u);
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_EQ(leaves, copies) << "a leaf was written to";
  }
}

TEST(RingAccumulator, EmptyLeavesAddNothing) {
  BufferPool pool;
  const auto leaves = MakeLeaves(3, kElements);
  RingAccumulator sum(kernels::Cpu(), pool, 3, kElements);
  sum.Add(0, Bytes());
  sum.Add(2, View(leaves[2]));
  const Bytes got = sum.Finish();
  EXPECT_EQ(std::vector<float>(got.floats(), got.floats() + got.float_count()), leaves[2]);
  EXPECT_TRUE(sum.Finish().empty());
}

}  // namespace

}  // namespace strata::server

#include "server/shard/sum/ring_accumulator.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/job/exchange/slices.h"
#include "gtest/gtest.h"
#include "server/shard/sum/accumulator_leaves.h"

namespace strata::server {
namespace {

constexpr size_t kElements = 100;

// Element by element, from the leaf after the slice's own on.
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

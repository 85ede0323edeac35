#include "common/job/exchange/all_reduce.h"

#include <gtest/gtest.h>

#include "common/job/exchange/slices.h"

namespace strata {
namespace {

using proto::AllReduce;

TEST(AllReduce, TheCostIsLatencyAndBytesOfTheSlowestNode) {
  const LinkCost link{.latency_s = 0.001, .bytes_per_s = 1e6};
  const AllReduceWork four{.nodes = 4, .bytes = 1000000, .chunks = 1, .window = 2};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::RING, four, link), 6 * 0.001 + 1.5);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::HALVING_DOUBLING, four, link), 4 * 0.001 + 1.5);
  const AllReduceWork five{.nodes = 5, .bytes = 1000000, .chunks = 8, .window = 2};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::RING, five, link), 4 * 8 * 0.001 + 1.6);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(AllReduce::HALVING_DOUBLING, five, link), 4 * 6 * 0.001 + 3.5);
}

TEST(AllReduce, SmallOnesHalveAndLargeOnesOfOddNodesGoRound) {
  const LinkCost link{.latency_s = 0.0001, .bytes_per_s = 1e8};
  EXPECT_EQ(FasterAllReduce({.nodes = 8, .bytes = 4096}, link), AllReduce::HALVING_DOUBLING);
  EXPECT_EQ(FasterAllReduce({.nodes = 6, .bytes = 4096}, link), AllReduce::HALVING_DOUBLING);
  EXPECT_EQ(FasterAllReduce({.nodes = 6, .bytes = 1 << 26, .chunks = 16}, link), AllReduce::RING);
  EXPECT_EQ(FasterAllReduce({.nodes = 2, .bytes = 4096}, link), AllReduce::RING) << "equal";
}

TEST(AllReduce, ChunksFollowFromTheArena) {
  EXPECT_EQ(DefaultAllReduceChunkElements(1000, 4), 1000u);
  EXPECT_EQ(DefaultAllReduceChunkElements(256 << 10, 4), 16384u);             // 64 KiB
  EXPECT_EQ(DefaultAllReduceChunkElements(256 << 10, 8), 8 * 4096u);          // 16 KiB a node
  EXPECT_EQ(DefaultAllReduceChunkElements(4 << 20, 4), 64u << 10);            // a 64th
  EXPECT_EQ(DefaultAllReduceChunkElements(uint64_t{1} << 30, 4), 128 << 10);  // 512 KiB
}

TEST(Slices, CoverAChunkInWholeRuns) {
  for (const uint32_t elements : {1u, 16u, 17u, 1000u, 4096u}) {
    for (const uint32_t slices : {1u, 3u, 8u, 100u}) {
      EXPECT_EQ(SliceStart(elements, slices, 0), 0u);
      EXPECT_EQ(SliceStart(elements, slices, slices), elements);
      for (uint32_t k = 0; k < slices; ++k) {
        const uint32_t begin = SliceStart(elements, slices, k);
        const uint32_t end = SliceStart(elements, slices, k + 1);
        EXPECT_LE(begin, end);
        EXPECT_TRUE(begin == elements || begin % kSliceAlignment == 0);
        EXPECT_LE(end - begin, (elements / slices + 2 * kSliceAlignment));
      }
    }
  }
}

}  // namespace
}  // namespace strata

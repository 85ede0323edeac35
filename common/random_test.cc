#include "common/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

TEST(Random, MixesAsSplitMix64Does) {
  // The first outputs of the published generator for the seed 0.
  EXPECT_EQ(MixBits(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(MixBits(0x9e3779b97f4a7c15u), 0x6e789e6aa1b965f4u);
}

TEST(Random, UniformFillsTheUnitIntervalEvenly) {
  std::vector<int> bins(10);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const float x = RandomUniform(RandomKey(7, 1), i);
    ASSERT_GE(x, 0.0f);
    ASSERT_LT(x, 1.0f);
    sum += x;
    ++bins[static_cast<int>(x * 10)];
  }
  EXPECT_NEAR(sum / 100000, 0.5, 0.005);
  for (int count : bins) EXPECT_NEAR(count, 10000, 500);
}

TEST(Random, StreamsAndSeedsDiffer) {
  EXPECT_NE(RandomKey(1, 2), RandomKey(2, 1));
  EXPECT_NE(RandomKey(1, 2), RandomKey(1, 3));
  EXPECT_NE(RandomBits(RandomKey(1, 2), 0), RandomBits(RandomKey(1, 3), 0));
}

TEST(Random, BelowReachesEveryValueAndNoOther) {
  std::vector<int> seen(7);
  for (int i = 0; i < 7000; ++i) {
    const uint64_t x = RandomBelow(5, i, 7);
    ASSERT_LT(x, 7u);
    ++seen[x];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace strata

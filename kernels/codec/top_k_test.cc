#include "kernels/codec/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <vector>

namespace strata::kernels {
namespace {

using Draw = std::function<uint32_t(std::mt19937&)>;

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

const std::vector<Draw>& Draws() {
  static const std::vector<Draw> draws = {
      [](std::mt19937& random) { return static_cast<uint32_t>(random()) & 0x7fffffff; },
      [](std::mt19937& random) { return Bits(std::normal_distribution<float>(0, 1)(random)); },
      [](std::mt19937& random) { return Bits(std::lognormal_distribution<float>(0, 9)(random)); },
      [](std::mt19937& random) { return static_cast<uint32_t>(random() % 5); },
      [](std::mt19937& random) { return Bits(1.0f) + static_cast<uint32_t>(random() % 3); },
      [](std::mt19937&) { return Bits(0.25f); }};
  return draws;
}

TEST(TopK, TheCutIsThatOfTheSortedMagnitudes) {
  std::mt19937 random(1);
  for (const Draw& draw : Draws()) {
    for (size_t n : {1, 2, 3, 10, 1000, 5000}) {
      std::vector<uint32_t> sorted(n);
      for (uint32_t& magnitude : sorted) magnitude = draw(random);
      std::vector<uint32_t> shuffled = sorted;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (size_t k : {size_t{1}, n / 100, n / 4, n / 2, n - 1, n}) {
        if (k < 1 || k > n) continue;
        std::vector<uint32_t> magnitudes = shuffled;
        const Cut cut = CutOfLargest(absl::MakeSpan(magnitudes), k);
        EXPECT_EQ(cut.cut, sorted[k - 1]);
        const auto above = std::count_if(sorted.begin(), sorted.end(),
                                         [&](uint32_t m) { return m > sorted[k - 1]; });
        EXPECT_EQ(cut.at_cut, k - above);
      }
    }
  }
}

TEST(TopK, ASampleGivesAThresholdThatMoreThanKButNotManyMoreReach) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const size_t n = 200000;
    std::vector<uint32_t> all(n), sample(4096);
    for (uint32_t& magnitude : all) magnitude = Draws()[1](random);
    for (size_t j = 0; j < sample.size(); ++j) sample[j] = all[j * 48];
    for (size_t k : {200, 2000, 20000, 50000}) {
      const uint32_t threshold = ThresholdFromSample(sample, n, k);
      const size_t count =
          std::count_if(all.begin(), all.end(), [&](uint32_t m) { return m >= threshold; });
      EXPECT_GE(count, k);
      EXPECT_LE(count, 2 * k + 4000) << k;
    }
  }
}

TEST(TopK, WithoutASampleOrIfMostAreWantedEveryElementButZerosReachTheThreshold) {
  EXPECT_EQ(ThresholdFromSample({}, 100, 1), 1u);
  const std::vector<uint32_t> sample(16, Bits(1.0f));
  EXPECT_EQ(ThresholdFromSample(sample, 256, 128), 1u);
  EXPECT_EQ(ThresholdFromSample(std::vector<uint32_t>(4096, 0), 1 << 20, 10), 1u);
}

}  // namespace
}  // namespace strata::kernels

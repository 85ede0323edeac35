#include "numerics/top_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace strata::kernels {
namespace {

const SparseCodec& kSparse = Cpu().codec.sparse;

using Draw = std::function<uint32_t(std::mt19937&)>;

uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffff; }

const std::vector<Draw>& Draws() {
  static const std::vector<Draw> draws = {
      [](std::mt19937& random) { return (static_cast<uint32_t>(random()) & 0x7fffffff) | 1; },
      [](std::mt19937& random) { return Bits(std::normal_distribution<float>(0, 1)(random)); },
      [](std::mt19937& random) { return Bits(std::lognormal_distribution<float>(0, 9)(random)); },
      [](std::mt19937& random) { return 1 + static_cast<uint32_t>(random() % 5); },
      [](std::mt19937& random) { return Bits(1.0f) + static_cast<uint32_t>(random() % 3); },
      [](std::mt19937&) { return Bits(0.25f); }};
  return draws;
}

std::vector<uint32_t> Room(size_t n) { return std::vector<uint32_t>(n + kCandidateSlack); }

TEST(TopK, TheCutIsThatOfTheSortedMagnitudes) {
  std::mt19937 random(1);
  for (const Draw& draw : Draws()) {
    for (size_t n : {1, 2, 3, 10, 1000, 5000, 40000}) {
      std::vector<uint32_t> sorted(n), scratch = Room(n);
      for (uint32_t& magnitude : sorted) magnitude = draw(random);
      std::vector<uint32_t> bits = sorted;
      for (uint32_t& value : bits) value |= static_cast<uint32_t>(random()) & 0x80000000;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (size_t k : {size_t{1}, n / 100, n / 4, n / 2, n - 1, n}) {
        if (k < 1 || k > n) continue;
        const Cut cut = CutOfLargest(kSparse, bits.data(), n, k, 1, scratch.data());
        EXPECT_EQ(cut.cut, sorted[k - 1]);
        const auto range =
            std::equal_range(sorted.begin(), sorted.end(), sorted[k - 1], std::greater<>());
        EXPECT_EQ(cut.at_cut, k - (range.first - sorted.begin()));
        EXPECT_EQ(cut.equal, range.second - range.first);
      }
    }
  }
}

TEST(TopK, TheLargestAreKeptInOrderAndOfEqualOnesThoseOfLowestIndex) {
  std::mt19937 random(3);
  for (const Draw& draw : Draws()) {
    for (size_t n : {1, 2, 17, 1000, 5000}) {
      for (size_t k : {size_t{1}, n / 10, n / 2, n}) {
        if (k < 1) continue;
        std::vector<uint32_t> indices = Room(n), bits = Room(n), scratch = Room(n);
        std::vector<std::pair<uint32_t, uint32_t>> expected;
        for (size_t j = 0; j < n; ++j) {
          indices[j] = static_cast<uint32_t>(3 * j + 5);
          bits[j] = draw(random) | (static_cast<uint32_t>(random()) & 0x80000000);
          expected.emplace_back(indices[j], bits[j]);
        }
        std::stable_sort(expected.begin(), expected.end(), [](const auto& a, const auto& b) {
          return (a.second & 0x7fffffff) > (b.second & 0x7fffffff);
        });
        expected.resize(k);
        std::sort(expected.begin(), expected.end());
        KeepLargest(kSparse, {indices.data(), bits.data()}, n, k, 1, scratch.data());
        for (size_t j = 0; j < k; ++j) {
          ASSERT_EQ(indices[j], expected[j].first) << j << " of " << k << " of " << n;
          ASSERT_EQ(bits[j], expected[j].second);
        }
      }
    }
  }
}

TEST(TopK, ASampleGivesAThresholdThatMoreThanKButNotManyMoreReach) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const size_t n = 200000;
    std::vector<uint32_t> all(n), sample(4096), scratch = Room(4096);
    for (uint32_t& magnitude : all) magnitude = Draws()[1](random);
    for (size_t j = 0; j < sample.size(); ++j) sample[j] = all[j * 48];
    for (size_t k : {200, 2000, 20000, 50000}) {
      const uint32_t threshold =
          ThresholdFromSample(kSparse, sample.data(), sample.size(), n, k, scratch.data());
      const size_t count =
          std::count_if(all.begin(), all.end(), [&](uint32_t m) { return m >= threshold; });
      EXPECT_GE(count, k);
      EXPECT_LE(count, k + k / 4 + 2500) << k;
    }
  }
}

TEST(TopK, WithoutASampleOrIfMostAreWantedEveryElementButZerosReachTheThreshold) {
  std::vector<uint32_t> sample(16, Bits(1.0f)), zeros(4096, 0), scratch = Room(4096);
  EXPECT_EQ(ThresholdFromSample(kSparse, nullptr, 0, 100, 1, scratch.data()), 1u);
  EXPECT_EQ(ThresholdFromSample(kSparse, sample.data(), 16, 256, 128, scratch.data()), 1u);
  EXPECT_EQ(ThresholdFromSample(kSparse, zeros.data(), 4096, 1 << 20, 10, scratch.data()), 1u);
}

}  // namespace
}  // namespace strata::kernels

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "numerics/top_k.h"
#include "numerics/weight_state.h"

namespace strata::numerics {
namespace {

// A message's buffer would stay beside the first update's for as long as the allocator keeps it: a
// model's size in all.
TEST(WeightState, KeepsNothingOfTheMessageThatFirstWeightsCameIn) {
  BufferPool pool;
  UpdateRule rule;
  WeightState state(kernels::Cpu(), pool, rule, 64, {{.offset = 0, .count = 64}});
  const auto message = std::make_shared<std::vector<float>>(64, 1.5f);
  state.Seed(Bytes(message, reinterpret_cast<const std::byte*>(message->data()), 256), 7);
  EXPECT_EQ(message.use_count(), 1);
  EXPECT_EQ(state.seed_checksum(), 7u);
  ASSERT_EQ(state.weights().float_count(), 64u);
  EXPECT_EQ(std::count(state.weights().floats(), state.weights().floats() + 64, 1.5f), 64);
}

constexpr float kAbsent = -0.0f;

Bytes View(const std::vector<float>& values) {
  return Bytes(nullptr, reinterpret_cast<const std::byte*>(values.data()),
               values.size() * sizeof(float));
}
std::vector<float> WeightsOf(const WeightState& state) {
  return {state.weights().floats(), state.weights().floats() + state.elements()};
}

UpdateRule Marking(OptimizerKind kind) {
  UpdateRule rule;
  rule.optimizer = {.kind = kind, .weight_decay = 0.1f};
  rule.says_rates = rule.marks_absent = true;
  return rule;
}

constexpr OptimizerKind kKinds[] = {OptimizerKind::kSgd, OptimizerKind::kMomentumSgd,
                                    OptimizerKind::kNesterov, OptimizerKind::kAdam,
                                    OptimizerKind::kAdamW};

// Elements 0 and 1 are absent in the second and third of five updates: they must be, bit for bit,
// as if those had not been made.
TEST(WeightState, WhatHasNoGradientIsAsIfTheUpdateHadNotBeenMade) {
  const std::vector<float> first = {1, -2, 3, 0.5f, -0.0f};
  const std::vector<OptimizerRun> runs = {{.offset = 0, .count = 5}};
  for (const OptimizerKind kind : kKinds) {
    BufferPool pool;
    const UpdateRule rule = Marking(kind);
    WeightState some(kernels::Cpu(), pool, rule, 5, runs),
        fewer(kernels::Cpu(), pool, rule, 5, runs), all(kernels::Cpu(), pool, rule, 5, runs);
    for (WeightState* state : {&some, &fewer, &all}) state->Seed(View(first), 1);
    for (int step = 0; step < 5; ++step) {
      const bool is_absent = step == 1 || step == 2;
      std::vector<float> gradient;
      for (int i = 0; i < 5; ++i) gradient.push_back(std::sin(1.0f + 3 * step + i));
      all.Apply(View(gradient), 0.5f, 2, {.said = 0.1});
      if (!is_absent) fewer.Apply(View(gradient), 0.5f, 2, {.said = 0.1});
      if (is_absent) gradient[0] = gradient[1] = kAbsent;
      some.Apply(View(gradient), 0.5f, 2, {.said = 0.1});
    }
    const std::vector<float> marked = WeightsOf(some), of_fewer = WeightsOf(fewer),
                             of_all = WeightsOf(all);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(marked[i], i < 2 ? of_fewer[i] : of_all[i]) << static_cast<int>(kind) << ", " << i;
    }
    EXPECT_NE(marked[0], of_all[0]);
    EXPECT_EQ(some.version(), 5u);
    EXPECT_EQ(some.bytes(), 20u * (1 + rule.state_vectors_max()));
  }
}

TEST(WeightState, ImagesHaveTheUpdatesThatElementsHaveMissed) {
  const std::vector<OptimizerRun> runs = {{.offset = 0, .count = 3}};
  for (const OptimizerKind kind : kKinds) {
    BufferPool pool;
    const UpdateRule rule = Marking(kind);
    WeightState one(kernels::Cpu(), pool, rule, 3, runs),
        other(kernels::Cpu(), pool, rule, 3, runs);
    one.Seed(View({1, 2, 3}), 1);
    one.Apply(View({1, kAbsent, 1}), 1, 1, {.said = 0.1});
    one.Apply(View({kAbsent, kAbsent, 2}), 1, 1, {.said = 0.1});
    ASSERT_TRUE(other.Restore(one.Image()).ok());
    for (WeightState* state : {&one, &other}) {
      state->Apply(View({0.5f, 1, -1}), 1, 1, {.said = 0.1});
    }
    EXPECT_EQ(WeightsOf(one), WeightsOf(other)) << static_cast<int>(kind);
  }
}

TEST(WeightState, ImagesThatCountUpdatesWhichWereNotMadeAreRefused) {
  BufferPool pool;
  const UpdateRule rule = Marking(OptimizerKind::kAdam);
  WeightState state(kernels::Cpu(), pool, rule, 2, {{.offset = 0, .count = 2}});
  const std::vector<float> some = {1, 2};
  for (const float missed : {-1.0f, 0.5f, 4.0f, NAN, INFINITY}) {
    const std::vector<float> bad = {0, missed};
    const absl::Status status = state.Restore({.updates = 3,
                                               .weights = View(some),
                                               .state = {View(some), View(some)},
                                               .missed = View(bad)});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << missed;
  }
}

TEST(WeightState, WhatIsAveragedIsWrittenAlsoWhereNobodyHasAPart) {
  BufferPool pool;
  const UpdateRule rule = Marking(OptimizerKind::kAdam);
  WeightState state(kernels::Cpu(), pool, rule, 2,
                    {{.offset = 0, .count = 1}, {.offset = 1, .count = 1, .averaged = true}});
  state.Seed(View({7, 7}), 1);
  state.Apply(View({kAbsent, kAbsent}), 1, 1, {.said = 0.1});
  EXPECT_EQ(WeightsOf(state), (std::vector<float>{7, 0}));
}

TEST(WeightState, AZeroGradientIsAGradientWhereNothingIsMarked) {
  BufferPool pool;
  UpdateRule rule = Marking(OptimizerKind::kSgd);
  rule.marks_absent = false;
  WeightState state(kernels::Cpu(), pool, rule, 1, {{.offset = 0, .count = 1}});
  state.Seed(View({1}), 1);
  state.Apply(View({kAbsent}), 1, 1, {.said = 0.5});
  EXPECT_EQ(WeightsOf(state), std::vector<float>{0.95f});
}

const kernels::SparseCodec& kSparse = kernels::Cpu().codec.sparse;

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

std::vector<uint32_t> Room(size_t n) { return std::vector<uint32_t>(n + kernels::kCandidateSlack); }

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
}  // namespace strata::numerics

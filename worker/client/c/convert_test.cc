#include "worker/client/c/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/client/c/vectors.h"

namespace strata::client {
namespace {

TEST(Convert, EveryTypeBecomesFp32TimesTheScale) {
  const std::vector<float> floats = {1, -2.5f, 0};
  const std::vector<double> doubles = {1, -2.5, 0};
  const std::vector<uint16_t> halves = {0x3c00, 0xc100, 0}, brains = {0x3f80, 0xc020, 0};
  for (const double scale : {1.0, 4.0}) {
    const std::vector<float> expected = {static_cast<float>(scale),
                                         static_cast<float>(-2.5 * scale), 0};
    std::vector<float> to(3);
    EXPECT_EQ(ToFloats(floats.data(), STRATA_FLOAT32, scale, absl::MakeSpan(to)), absl::OkStatus());
    EXPECT_EQ(to, expected);
    EXPECT_EQ(ToFloats(doubles.data(), STRATA_FLOAT64, scale, absl::MakeSpan(to)),
              absl::OkStatus());
    EXPECT_EQ(to, expected);
    EXPECT_EQ(ToFloats(halves.data(), STRATA_FLOAT16, scale, absl::MakeSpan(to)), absl::OkStatus());
    EXPECT_EQ(to, expected);
    EXPECT_EQ(ToFloats(brains.data(), STRATA_BFLOAT16, scale, absl::MakeSpan(to)),
              absl::OkStatus());
    EXPECT_EQ(to, expected);
  }
}

TEST(Convert, Fp32BecomesEveryType) {
  const std::vector<float> from = {1, -2.5f, 0};
  std::vector<float> floats(3);
  std::vector<double> doubles(3);
  std::vector<uint16_t> halves(3), brains(3);
  EXPECT_EQ(FromFloats(from, STRATA_FLOAT32, floats.data()), absl::OkStatus());
  EXPECT_EQ(FromFloats(from, STRATA_FLOAT64, doubles.data()), absl::OkStatus());
  EXPECT_EQ(FromFloats(from, STRATA_FLOAT16, halves.data()), absl::OkStatus());
  EXPECT_EQ(FromFloats(from, STRATA_BFLOAT16, brains.data()), absl::OkStatus());
  EXPECT_EQ(floats, from);
  EXPECT_EQ(doubles, (std::vector<double>{1, -2.5, 0}));
  EXPECT_EQ(halves, (std::vector<uint16_t>{0x3c00, 0xc100, 0}));
  EXPECT_EQ(brains, (std::vector<uint16_t>{0x3f80, 0xc020, 0}));
}

// All values of the 16-bit types are exact in fp32; between two of them the even one is nearest.
TEST(Convert, HalvesAndBrainsComeBackAndRoundToNearest) {
  for (const strata_dtype dtype : {STRATA_FLOAT16, STRATA_BFLOAT16}) {
    const uint32_t infinite = dtype == STRATA_FLOAT16 ? 0x7c00 : 0x7f80;
    for (uint32_t bits = 0; bits < infinite; ++bits) {
      const uint16_t pair[] = {static_cast<uint16_t>(bits), static_cast<uint16_t>(bits + 1)};
      uint16_t back[2] = {};
      float values[2] = {};
      ASSERT_EQ(ToFloats(pair, dtype, 1, absl::MakeSpan(values, 1)), absl::OkStatus());
      ASSERT_EQ(FromFloats(absl::MakeConstSpan(values, 1), dtype, back), absl::OkStatus());
      ASSERT_EQ(back[0], pair[0]);
      if (bits + 1 == infinite) break;
      ASSERT_EQ(ToFloats(pair, dtype, -1, absl::MakeSpan(values)), absl::OkStatus());
      const float middle = values[0] / 2 + values[1] / 2;
      ASSERT_EQ(FromFloats(absl::MakeConstSpan(&middle, 1), dtype, back), absl::OkStatus());
      // A tie that fp32 has already rounded away is not one.
      if (middle != values[0] && middle != values[1]) {
        ASSERT_EQ(back[0], 0x8000 | (bits % 2 == 0 ? bits : bits + 1)) << bits;
      }
    }
    const float large = std::numeric_limits<float>::max();
    uint16_t back = 0;
    ASSERT_EQ(FromFloats(absl::MakeConstSpan(&large, 1), dtype, &back), absl::OkStatus());
    EXPECT_EQ(back, infinite);
  }
}

// Whole vectors, their unaligned heads and tails, and non-temporal stores.
TEST(Convert, EveryElementIsThatOfAPlainLoopWhereverItLies) {
  const size_t far = (size_t{9} << 20) / sizeof(uint16_t);
  for (const size_t n : {size_t{1}, size_t{31}, size_t{67}, far}) {
    for (const size_t shift : {0, 1, 3}) {
      std::vector<float> floats(n + shift), back(n + shift + 1, -1);
      std::vector<uint16_t> halves(n + shift + 1, 7);
      std::vector<double> doubles(n + shift + 1, -1);
      for (size_t i = 0; i < n + shift; ++i) {
        floats[i] = std::ldexp(1.0f + static_cast<float>(i % 4093) / 4096, i % 50 - 30);
      }
      const auto from = absl::MakeConstSpan(floats).subspan(shift);
      const auto to = absl::MakeSpan(back).subspan(shift, n);
      const auto as_halves = absl::MakeSpan(halves).subspan(shift);
      for (const strata_dtype dtype : {STRATA_FLOAT16, STRATA_BFLOAT16}) {
        const bool is_half = dtype == STRATA_FLOAT16;
        ASSERT_EQ(FromFloats(from, dtype, as_halves.data()), absl::OkStatus());
        size_t wrong = 0;
        for (size_t i = 0; i < n; ++i) {
          wrong += as_halves[i] != (is_half ? ToHalf(from[i]) : ToBrain(from[i]));
          if (as_halves[i] == 0x7c00) as_halves[i] = 0;
        }
        ASSERT_EQ(ToFloats(as_halves.data(), dtype, 3, to), absl::OkStatus());
        for (size_t i = 0; i < n; ++i) {
          wrong += to[i] != 3 * (is_half ? FromHalf(as_halves[i]) : FromBrain(as_halves[i]));
        }
        EXPECT_EQ(wrong, 0) << "dtype " << dtype << ", " << n << " elements from " << shift;
      }
      ASSERT_EQ(FromFloats(from, STRATA_FLOAT64, &doubles[shift]), absl::OkStatus());
      EXPECT_TRUE(std::equal(from.begin(), from.end(), doubles.begin() + shift));
      ASSERT_EQ(ToFloats(&doubles[shift], STRATA_FLOAT64, 1, to), absl::OkStatus());
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
      ASSERT_EQ(ToFloats(from.data(), STRATA_FLOAT32, 1, to), absl::OkStatus());
      EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
      EXPECT_EQ(back.back(), -1) << "nothing is written past the end";
      EXPECT_EQ(doubles.back(), -1);
      EXPECT_EQ(halves.back(), 7);
    }
  }
}

TEST(Convert, WhatIsNoFiniteFp32IsNamedByItsIndex) {
  std::vector<float> to(3);
  const auto error = [&](const auto& values, strata_dtype dtype, double scale) {
    return std::string(ToFloats(values.data(), dtype, scale, absl::MakeSpan(to)).message());
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error(std::vector<float>{1, nan, 2}, STRATA_FLOAT32, 1), "element 1 is NaN as fp32");
  EXPECT_EQ(error(std::vector<float>{1, 2, 3e38f}, STRATA_FLOAT32, 10),
            "element 2 is infinite as fp32");
  EXPECT_EQ(error(std::vector<double>{1e300, 2, 3}, STRATA_FLOAT64, 1),
            "element 0 is infinite as fp32");
  EXPECT_EQ(error(std::vector<uint16_t>{0, 0x7c00, 0}, STRATA_FLOAT16, 1),
            "element 1 is infinite as fp32");
  to.resize(100);
  std::vector<float> many(100, 1);
  many[17] = -std::numeric_limits<float>::infinity();
  many[60] = nan;
  EXPECT_EQ(error(many, STRATA_FLOAT32, 1), "element 17 is infinite as fp32");
  std::vector<uint16_t> brains(100, 0x3f80);
  brains[31] = 0x7fc0;
  EXPECT_EQ(error(brains, STRATA_BFLOAT16, 1), "element 31 is NaN as fp32");
}

TEST(Convert, ATypeThatThereIsNotIsRefused) {
  float value = 0;
  const auto none = static_cast<strata_dtype>(9);
  EXPECT_EQ(
      ToFloats(&value, none, 1, absl::MakeSpan(&value, 1)),
      absl::InvalidArgumentError("dtype 9 is none of STRATA_FLOAT32, FLOAT64, FLOAT16, BFLOAT16"));
  EXPECT_FALSE(FromFloats(absl::MakeConstSpan(&value, 1), none, &value).ok());
}

}  // namespace
}  // namespace strata::client

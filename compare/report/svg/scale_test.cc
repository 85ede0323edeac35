#include "compare/report/svg/scale.h"

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

void ExpectTicks(const Scale& scale, const std::vector<double>& expected) {
  ASSERT_EQ(scale.ticks.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(scale.ticks[i], expected[i], 1e-12);
}

TEST(RoundScale, EndsAtRoundNumbersAroundTheValues) {
  const Scale scale = RoundScale(0.42, 0.887, 5, 0, 100);
  EXPECT_DOUBLE_EQ(scale.low, 0.4);
  EXPECT_DOUBLE_EQ(scale.high, 0.9);
  ExpectTicks(scale, {0.4, 0.5, 0.6, 0.7, 0.8, 0.9});
  ExpectTicks(RoundScale(0, 39.2, 5, 0, 1), {0, 10, 20, 30, 40});
  ExpectTicks(RoundScale(0, 256000, 6, 0, 1), {0, 50000, 100000, 150000, 200000, 250000, 300000});
  ExpectTicks(RoundScale(-0.3, 0.25, 4, 0, 1), {-0.4, -0.2, 0, 0.2, 0.4});
}

TEST(RoundScale, RoundEndsStay) {
  ExpectTicks(RoundScale(0, 1, 5, 0, 1), {0, 0.2, 0.4, 0.6, 0.8, 1});
}

TEST(RoundScale, EqualValuesHaveRoomAroundThem) {
  const Scale scale = RoundScale(0, 0, 4, 0, 1);
  EXPECT_EQ(scale.low, 0);
  EXPECT_EQ(scale.high, 1);
  EXPECT_LE(RoundScale(-5, -5, 4, 0, 1).low, -5);
  EXPECT_GT(RoundScale(5, 5, 4, 0, 1).high, 5);
}

TEST(Scale, PixelsMayRunEitherWay) {
  const Scale up = RoundScale(0, 10, 5, 300, 100);
  EXPECT_EQ(up.Pixel(0), 300);
  EXPECT_EQ(up.Pixel(10), 100);
  EXPECT_EQ(up.Pixel(2.5), 250);
}

}  // namespace
}  // namespace strata::compare

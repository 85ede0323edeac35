#include "compare/statistics/estimate.h"

#include <cmath>

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

TEST(StudentQuantile, IsThatOfPrintedTables) {
  EXPECT_NEAR(StudentQuantile(1), 12.7062, 5e-5);
  EXPECT_NEAR(StudentQuantile(2), 4.3027, 5e-5);
  EXPECT_NEAR(StudentQuantile(4), 2.7764, 5e-5);
  EXPECT_NEAR(StudentQuantile(30), 2.0423, 5e-5);
}

TEST(Mean, OneValueHasNoInterval) {
  const Estimate one = Mean({0.88});
  EXPECT_EQ(one.mean, 0.88);
  EXPECT_EQ(one.count, 1);
  EXPECT_FALSE(one.interval);
}

TEST(Mean, IntervalIsStudents) {
  // s = 1: 4.30265 / sqrt(3) on either side.
  const Estimate three = Mean({1, 2, 3});
  EXPECT_EQ(three.count, 3);
  EXPECT_DOUBLE_EQ(three.mean, 2);
  EXPECT_NEAR(three.interval->low, 2 - 2.484138, 1e-6);
  EXPECT_NEAR(three.interval->high, 2 + 2.484138, 1e-6);
  // s = 0.02 / sqrt(2): 12.70620 x 0.01.
  const Estimate two = Mean({0.88, 0.90});
  EXPECT_NEAR(two.interval->high - two.mean, 0.1270620, 1e-6);
}

TEST(Mean, EqualValuesHaveAnIntervalOfNoWidth) {
  const Estimate estimate = Mean({0.5, 0.5, 0.5, 0.5});
  EXPECT_EQ(estimate.interval->low, 0.5);
  EXPECT_EQ(estimate.interval->high, 0.5);
}

TEST(GeometricMean, IsOfLogarithms) {
  // Logarithms 0 and 1.386294: s = 0.980258, 12.70620 x 0.980258 / sqrt(2) = 8.807268.
  const Estimate estimate = GeometricMean({1, 4});
  EXPECT_DOUBLE_EQ(estimate.mean, 2);
  EXPECT_NEAR(std::log(estimate.interval->high / 2), 8.807268, 1e-4);
  EXPECT_NEAR(estimate.interval->low * estimate.interval->high, 4, 1e-9);
}

TEST(GeometricMean, OfRatiosIsTheRatioOfThem) {
  const double over = GeometricMean({12, 15, 11}).mean / GeometricMean({4, 7, 6}).mean;
  EXPECT_NEAR(GeometricMean({12.0 / 4, 15.0 / 7, 11.0 / 6}).mean, over, 1e-12);
}

}  // namespace
}  // namespace strata::compare

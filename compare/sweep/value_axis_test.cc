#include "compare/sweep/value_axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::compare {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

ValueAxis AxisWith(const std::vector<std::string>& values) {
  proto::Variation variation;
  for (const std::string& value : values) variation.add_values(value);
  return MakeAxis(variation);
}

TEST(ValueAxis, IsLogarithmicFromADecadeOn) {
  const ValueAxis axis = AxisWith({"0.01", "0.1", "0.03"});
  EXPECT_EQ(axis.kind, ValueAxis::Kind::kLogarithmic);
  EXPECT_THAT(axis.positions, ElementsAre(DoubleNear(-2, 1e-12), DoubleNear(-1, 1e-12),
                                          DoubleNear(-1.5228787, 1e-6)));
  EXPECT_NEAR(axis.low, -2.05, 1e-12);
  EXPECT_NEAR(axis.high, -0.95, 1e-12);
  EXPECT_EQ(AxisWith({"1e-4", "0.5"}).kind, ValueAxis::Kind::kLogarithmic);
}

TEST(ValueAxis, IsLinearBelowADecadeAndWhereAValueIsNotAbove0) {
  EXPECT_THAT(AxisWith({"2", "16"}).positions, ElementsAre(2, 16));
  EXPECT_EQ(AxisWith({"2", "16"}).kind, ValueAxis::Kind::kLinear);
  EXPECT_EQ(AxisWith({"0", "0.5", "0.9"}).kind, ValueAxis::Kind::kLinear);
  EXPECT_EQ(AxisWith({"0", "1000"}).kind, ValueAxis::Kind::kLinear);
  EXPECT_EQ(AxisWith({"-100", "-1"}).kind, ValueAxis::Kind::kLinear);
}

TEST(ValueAxis, NamesStandSideBySide) {
  const ValueAxis axis = AxisWith({"FP16", "1", "NONE"});
  EXPECT_EQ(axis.kind, ValueAxis::Kind::kNames);
  EXPECT_THAT(axis.positions, ElementsAre(0, 1, 2));
  EXPECT_EQ(AxisWith({"nan", "1"}).kind, ValueAxis::Kind::kNames);
}

TEST(ValueAxis, OneValueHasRoomAround) {
  const ValueAxis axis = AxisWith({"5"});
  EXPECT_THAT(axis.positions, ElementsAre(5));
  EXPECT_EQ(axis.low, 4);
  EXPECT_EQ(axis.high, 6);
}

}  // namespace
}  // namespace strata::compare

#include "compare/statistics/curve.h"

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

std::vector<double> Heights(const Curve& curve) {
  std::vector<double> heights;
  for (const Point& point : curve) heights.push_back(point.y);
  return heights;
}

TEST(Smoothed, TakesTheMedianOfThreeAndKeepsTheEnds) {
  const Curve curve = {{1, 9}, {2, 1}, {3, 5}, {4, 2}, {5, 7}};
  // (9 1 5) -> 5, (1 5 2) -> 2, (5 2 7) -> 5.
  EXPECT_EQ(Heights(Smoothed(curve)), (std::vector<double>{9, 5, 2, 5, 7}));
}

TEST(Smoothed, OneOutlierDoesNotShow) {
  const Curve curve = {{1, 0.1}, {2, 0.2}, {3, 0.9}, {4, 0.3}, {5, 0.4}};
  EXPECT_EQ(Heights(Smoothed(curve)), (std::vector<double>{0.1, 0.2, 0.3, 0.4, 0.4}));
}

TEST(Smoothed, FewerThanThreePointsStay) {
  EXPECT_TRUE(Smoothed({}).empty());
  EXPECT_EQ(Heights(Smoothed({{1, 3}})), (std::vector<double>{3}));
  EXPECT_EQ(Heights(Smoothed({{1, 3}, {2, 1}})), (std::vector<double>{3, 1}));
}

TEST(FirstCrossing, IsLinearBetweenPoints) {
  const Curve curve = {{10, 0.2}, {20, 0.6}, {30, 0.4}, {40, 0.9}};
  EXPECT_DOUBLE_EQ(*FirstCrossing(curve, 0.5), 17.5);
  EXPECT_DOUBLE_EQ(*FirstCrossing(curve, 0.6), 20);
  EXPECT_DOUBLE_EQ(*FirstCrossing(curve, 0.8), 38);
}

TEST(FirstCrossing, OfWhatIsAboveAtOnceIsTheFirstPoint) {
  EXPECT_EQ(FirstCrossing({{10, 0.2}, {20, 0.6}}, 0.1), 10);
}

TEST(FirstCrossing, IsNoneWhereTheCurveStaysBelow) {
  EXPECT_FALSE(FirstCrossing({{10, 0.2}, {20, 0.6}}, 0.61));
  EXPECT_FALSE(FirstCrossing({}, 0.5));
}

TEST(ValueAt, IsLinearAndNoneOutside) {
  const Curve curve = {{10, 1}, {20, 3}, {20, 5}, {30, 5}};
  EXPECT_EQ(ValueAt(curve, 10), 1);
  EXPECT_EQ(ValueAt(curve, 15), 2);
  EXPECT_EQ(ValueAt(curve, 30), 5);
  EXPECT_FALSE(ValueAt(curve, 9.9));
  EXPECT_FALSE(ValueAt(curve, 30.1));
  EXPECT_FALSE(ValueAt({}, 1));
}

TEST(MeanCurve, CoversWhatAllCurvesHave) {
  const std::vector<BandPoint> band =
      MeanCurve({{{0, 0}, {10, 10}, {20, 20}}, {{5, 1}, {15, 3}}}, 100);
  ASSERT_EQ(band.size(), 3u);
  EXPECT_EQ(band[0].x, 5);
  EXPECT_EQ(band[0].mean, 3);  // of 5 and 1
  EXPECT_EQ(band[0].low, 1);
  EXPECT_EQ(band[0].high, 5);
  EXPECT_EQ(band[1].x, 10);
  EXPECT_EQ(band[1].mean, 6);  // of 10 and 2
  EXPECT_EQ(band[2].x, 15);
  EXPECT_EQ(band[2].high, 15);
}

TEST(MeanCurve, IsEmptyWithoutACommonRange) {
  EXPECT_TRUE(MeanCurve({{{0, 1}, {1, 1}}, {{2, 1}, {3, 1}}}, 100).empty());
  EXPECT_TRUE(MeanCurve({{{0, 1}}, {}}, 100).empty());
}

TEST(MeanCurve, LongCurvesAreThinned) {
  Curve line;
  for (int i = 0; i < 1000; ++i) line.push_back({double(i), 2.0 * i});
  const std::vector<BandPoint> band = MeanCurve({line}, 100);
  EXPECT_LE(band.size(), 102u);
  EXPECT_GE(band.size(), 90u);
  EXPECT_EQ(band.back().x, 999);
  for (const BandPoint& point : band) EXPECT_EQ(point.mean, 2 * point.x);
}

}  // namespace
}  // namespace strata::compare

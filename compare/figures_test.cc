#include <cmath>

#include "compare/curve.h"
#include "compare/figure_text.h"
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

proto::RunRecord RunCurvesRecord() {
  proto::RunRecord run;
  run.set_mode("sync");
  run.set_steps(20);
  run.set_trained_s(4);
  for (int i = 1; i <= 2; ++i) {
    proto::Measurement* measurement = run.add_measurements();
    measurement->set_samples(100 * i);
    measurement->set_updates(10 * i * i);
    measurement->set_trained_s(2 * i);
    measurement->set_accuracy(0.4 * i);
  }
  for (int i = 1; i <= 5; ++i) {
    proto::Window* window = run.add_windows();
    window->set_samples(50 * i);
    window->set_trained_s(i);
    window->set_loss(1.0 / i);
  }
  return run;
}

TEST(RunFailure, ARunThatHasFinishedHasNone) { EXPECT_EQ(RunFailure(RunCurvesRecord()), ""); }

TEST(RunFailure, IsTheRunsOwn) {
  proto::RunRecord run = RunCurvesRecord();
  run.set_failure("rank 2: loss is NaN at step 310");
  EXPECT_EQ(RunFailure(run), "rank 2: loss is NaN at step 310");
}

TEST(RunFailure, ARecordThatLacksWhatFiguresNeedHasFailed) {
  proto::RunRecord run = RunCurvesRecord();
  run.clear_measurements();
  EXPECT_EQ(RunFailure(run), "no accuracy was measured");
  run = RunCurvesRecord();
  run.clear_steps();
  EXPECT_EQ(RunFailure(run), "no step was made");
  const std::string not_finite = "a time, share or accuracy of its record is not finite";
  run = RunCurvesRecord();
  run.mutable_measurements(0)->set_accuracy(NAN);
  EXPECT_EQ(RunFailure(run), not_finite);
  run = RunCurvesRecord();
  run.mutable_measurements(1)->set_trained_s(INFINITY);
  EXPECT_EQ(RunFailure(run), not_finite);
  run = RunCurvesRecord();
  run.set_trained_s(NAN);
  EXPECT_EQ(RunFailure(run), not_finite);
  run = RunCurvesRecord();
  run.set_waiting_share(NAN);
  EXPECT_EQ(RunFailure(run), not_finite);
}

TEST(AccuracyCurve, HasAPointPerMeasurement) {
  const Curve samples = AccuracyCurve(RunCurvesRecord(), Axis::kSamples);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1].x, 200);
  EXPECT_EQ(samples[1].y, 0.8);
  EXPECT_EQ(AccuracyCurve(RunCurvesRecord(), Axis::kSeconds)[1].x, 4);
  EXPECT_EQ(AccuracyCurve(RunCurvesRecord(), Axis::kUpdates)[1].x, 40);
}

TEST(LossCurve, WindowsLieBetweenTheUpdatesOfMeasurements) {
  const Curve updates = LossCurve(RunCurvesRecord(), Axis::kUpdates);
  ASSERT_EQ(updates.size(), 5u);
  EXPECT_EQ(updates[0].x, 5);  // 50 of the first 100 samples, which were 10 updates
  EXPECT_EQ(updates[1].x, 10);
  EXPECT_EQ(updates[2].x, 25);  // half of the way to 40
  EXPECT_EQ(updates[4].x, 40);  // past the last measurement
  EXPECT_EQ(LossCurve(RunCurvesRecord(), Axis::kSamples)[4].x, 250);
  EXPECT_EQ(LossCurve(RunCurvesRecord(), Axis::kSeconds)[4].x, 5);
}

TEST(LossCurve, LeavesOutWhatIsNotFinite) {
  proto::RunRecord run = RunCurvesRecord();
  run.mutable_windows(1)->set_loss(NAN);
  run.mutable_windows(2)->set_loss(INFINITY);
  EXPECT_EQ(LossCurve(run, Axis::kSamples).size(), 3u);
}

}  // namespace

namespace {

TEST(FigureText, HasDigitsThatCountAndUnits) {
  EXPECT_EQ(PercentText(0.88126, 2), "88.13 %");
  EXPECT_EQ(PercentText(Interval{0.879, 0.8836}, 2), "87.90 to 88.36");
  EXPECT_EQ(PercentText(Interval{-0.84, 1.81}, 2), "0.00 to 100.00");
  EXPECT_EQ(PointsText(0.00123), "+0.12");
  EXPECT_EQ(PointsText(-0.014), "-1.40");
  EXPECT_EQ(PointsText(-1e-9), "+0.00");
  EXPECT_EQ(PointsText(Interval{-0.0031, 0.0007}), "-0.31 to +0.07");
  EXPECT_EQ(RatioText(1.8249), "1.82");
  EXPECT_EQ(RatioText(12.44), "12.4");
  EXPECT_EQ(RatioText(Interval{1.607, 2.051}), "1.61 to 2.05");
  EXPECT_EQ(SecondsText(12.34), "12.3 s");
  EXPECT_EQ(SecondsText(0.0123456), "0.0123 s");
  EXPECT_EQ(SecondsText(0.5), "0.500 s");
  EXPECT_EQ(SecondsText(1234.5), "1234 s");
  EXPECT_EQ(SecondsText(0), "0.000 s");
  EXPECT_EQ(SecondsText(Interval{9.5, 12.84}), "9.50 to 12.8");
  EXPECT_EQ(CountText(940), "940");
  EXPECT_EQ(CountText(61706), "61.7 k");
  EXPECT_EQ(CountText(1.234e6), "1.23 M");
  EXPECT_EQ(BytesText(940), "940 B");
  EXPECT_EQ(BytesText(999999), "1.00 MB");
  EXPECT_EQ(BytesText(123e9), "123 GB");
}

TEST(TargetText, SaysWhereTheTargetComesFrom) {
  Analysis analysis;
  EXPECT_EQ(TargetText(analysis), "");
  analysis.target_accuracy = 0.871;
  analysis.target_mode = "async";
  EXPECT_EQ(TargetText(analysis), "87.1 % (1 point below the lowest mean final accuracy, async's)");
  ModeFigures lost;
  lost.final_accuracy = Estimate{0.1, 1, {}};
  analysis.modes = {lost};
  EXPECT_EQ(TargetText(analysis),
            "87.1 % (1 point below the lowest mean final accuracy, async's, without modes more "
            "than 10 points below the best)");
  analysis.target_is_given = true;
  EXPECT_EQ(TargetText(analysis), "87.1 % (as given)");
}

TEST(FigureText, AModesNameAndItsSettingsAreApart) {
  const ModeParts plain = PartsOfMode("lazy:ssp(3)");
  EXPECT_EQ(plain.name, "lazy:ssp(3)");
  EXPECT_TRUE(plain.settings.empty());
  const ModeParts parts = PartsOfMode("sync+schedule={base_lr: 1 a+b: 2}+ranks=1e+2");
  EXPECT_EQ(parts.name, "sync");
  EXPECT_EQ(parts.settings,
            (std::vector<std::string>{"schedule={base_lr: 1 a+b: 2}", "ranks=1e+2"}));
}

}  // namespace
}  // namespace strata::compare

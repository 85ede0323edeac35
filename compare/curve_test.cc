#include "compare/curve.h"

#include <cmath>

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

}  // namespace strata::compare

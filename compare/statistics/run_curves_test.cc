#include "compare/statistics/run_curves.h"

#include <cmath>

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

proto::RunRecord Record() {
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

TEST(RunFailure, ARunThatHasFinishedHasNone) { EXPECT_EQ(RunFailure(Record()), ""); }

TEST(RunFailure, IsTheRunsOwn) {
  proto::RunRecord run = Record();
  run.set_failure("rank 2: loss is NaN at step 310");
  EXPECT_EQ(RunFailure(run), "rank 2: loss is NaN at step 310");
}

TEST(RunFailure, ARecordThatLacksWhatFiguresNeedHasFailed) {
  proto::RunRecord run = Record();
  run.clear_measurements();
  EXPECT_EQ(RunFailure(run), "no accuracy was measured");
  run = Record();
  run.clear_steps();
  EXPECT_EQ(RunFailure(run), "no step was made");
  const std::string not_finite = "a time, share or accuracy of its record is not finite";
  run = Record();
  run.mutable_measurements(0)->set_accuracy(NAN);
  EXPECT_EQ(RunFailure(run), not_finite);
  run = Record();
  run.mutable_measurements(1)->set_trained_s(INFINITY);
  EXPECT_EQ(RunFailure(run), not_finite);
  run = Record();
  run.set_trained_s(NAN);
  EXPECT_EQ(RunFailure(run), not_finite);
  run = Record();
  run.set_waiting_share(NAN);
  EXPECT_EQ(RunFailure(run), not_finite);
}

TEST(AccuracyCurve, HasAPointPerMeasurement) {
  const Curve samples = AccuracyCurve(Record(), Axis::kSamples);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[1].x, 200);
  EXPECT_EQ(samples[1].y, 0.8);
  EXPECT_EQ(AccuracyCurve(Record(), Axis::kSeconds)[1].x, 4);
  EXPECT_EQ(AccuracyCurve(Record(), Axis::kUpdates)[1].x, 40);
}

TEST(LossCurve, WindowsLieBetweenTheUpdatesOfMeasurements) {
  const Curve updates = LossCurve(Record(), Axis::kUpdates);
  ASSERT_EQ(updates.size(), 5u);
  EXPECT_EQ(updates[0].x, 5);  // 50 of the first 100 samples, which were 10 updates
  EXPECT_EQ(updates[1].x, 10);
  EXPECT_EQ(updates[2].x, 25);  // half of the way to 40
  EXPECT_EQ(updates[4].x, 40);  // past the last measurement
  EXPECT_EQ(LossCurve(Record(), Axis::kSamples)[4].x, 250);
  EXPECT_EQ(LossCurve(Record(), Axis::kSeconds)[4].x, 5);
}

TEST(LossCurve, LeavesOutWhatIsNotFinite) {
  proto::RunRecord run = Record();
  run.mutable_windows(1)->set_loss(NAN);
  run.mutable_windows(2)->set_loss(INFINITY);
  EXPECT_EQ(LossCurve(run, Axis::kSamples).size(), 3u);
}

}  // namespace
}  // namespace strata::compare

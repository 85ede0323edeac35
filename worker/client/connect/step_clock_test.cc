#include "worker/client/connect/step_clock.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace strata::client {
namespace {

constexpr absl::Time kBegin = absl::UnixEpoch();

proto::Job JobWith(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

absl::Time At(int ms) { return kBegin + absl::Milliseconds(ms); }

TEST(StepClock, ASlowNodeStandsStillForItsComputationWithoutWaits) {
  const proto::Job job = JobWith("program {} debug { delays { node: 1 slow: 4 } }");
  StepClock clock(job, 1, 2);
  clock.Begin(kBegin);
  clock.AddWait(absl::Milliseconds(30));
  EXPECT_EQ(clock.EndComputation(0, At(40)), absl::Milliseconds(30));
  clock.EndStep(At(70));
  EXPECT_EQ(clock.EndComputation(1, At(75)), absl::Milliseconds(15));
  StepClock other(job, 0, 0);
  other.Begin(kBegin);
  EXPECT_EQ(other.EndComputation(0, At(40)), absl::ZeroDuration());
}

TEST(StepClock, ModelsOfTheZooDelayThemselves) {
  StepClock clock(JobWith("model {} debug { delays { slow: 4 } }"), 0, 0);
  clock.Begin(kBegin);
  EXPECT_EQ(clock.EndComputation(0, At(40)), absl::ZeroDuration());
}

TEST(StepClock, WhatIsMeasuredBetweenStepsIsNoComputationAndNoTraining) {
  StepClock clock(JobWith("program {} debug { delays { slow: 2 } }"), 0, 0);
  EXPECT_EQ(clock.TrainedSeconds(kBegin), 0);
  clock.Begin(kBegin);
  clock.EndStep(At(100));
  clock.EndMeasurement(At(600));
  EXPECT_EQ(clock.EndComputation(1, At(700)), absl::Milliseconds(100));
  EXPECT_EQ(clock.TrainedSeconds(At(700)), 0.2);
}

}  // namespace
}  // namespace strata::client

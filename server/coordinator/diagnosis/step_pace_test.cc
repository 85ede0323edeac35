#include "server/coordinator/diagnosis/step_pace.h"

#include "gtest/gtest.h"

namespace strata::server {
namespace {

constexpr uint64_t kFirst = 60;
const absl::Time kBegin = absl::FromUnixSeconds(1'000'000);

absl::Time After(double seconds) { return kBegin + absl::Seconds(seconds); }

class StepPaceTest : public ::testing::Test {
 protected:
  void See(uint64_t steps, double at) { pace_.Observe(kFirst, kBegin, steps, After(at)); }

  StepPace pace_;
};

TEST_F(StepPaceTest, BeforeAStepIsMadeNothingIsKnown) {
  EXPECT_EQ(pace_.Median(), std::nullopt);
  See(kFirst, 1);
  See(kFirst, 500);
  EXPECT_EQ(pace_.Median(), std::nullopt);
  EXPECT_EQ(pace_.first_step(), std::nullopt);
}

TEST_F(StepPaceTest, OfFewStepsTheFirstIsOneAndOfTwoTheLongerCounts) {
  See(kFirst, 1);
  See(kFirst + 1, 100);
  EXPECT_EQ(pace_.Median(), absl::Seconds(100));
  EXPECT_EQ(pace_.first_step(), absl::Seconds(100));
  See(kFirst + 2, 104);
  EXPECT_EQ(pace_.Median(), absl::Seconds(100));
  See(kFirst + 3, 110);
  EXPECT_EQ(pace_.Median(), absl::Seconds(6));
  EXPECT_EQ(pace_.first_step(), absl::Seconds(100));
}

TEST_F(StepPaceTest, StepsThatAreSeenTogetherShareTheTime) {
  See(kFirst, 0);
  See(kFirst + 1, 1);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1));
  See(kFirst + 2, 3);
  See(kFirst + 5, 4.5);
  EXPECT_EQ(pace_.Median(), absl::Seconds(0.5)) << "three of five";
}

TEST_F(StepPaceTest, StepsThatAreMadeAgainAreNone) {
  See(kFirst, 0);
  See(kFirst + 10, 10);
  See(kFirst + 4, 50);
  See(kFirst + 10, 60);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1));
  See(kFirst + 11, 62);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1)) << "of ten of a second and one of 52";
}

TEST_F(StepPaceTest, TheNewestCount) {
  See(kFirst, 0);
  for (int step = 1; step <= 40; ++step) See(kFirst + step, 10 * step);
  for (int step = 1; step <= 16; ++step) See(kFirst + 40 + step, 400 + step);
  EXPECT_EQ(pace_.Median(), absl::Seconds(1)) << "16 of 31";
}

TEST_F(StepPaceTest, WhereStepsHadBeenMadeBeforeTheFirstIsNotKnown) {
  See(kFirst + 50, 11);
  EXPECT_EQ(pace_.Median(), absl::Seconds(11) / 50);
  See(kFirst + 101, 113);
  EXPECT_EQ(pace_.Median(), absl::Seconds(2)) << "51 of 101";
  EXPECT_EQ(pace_.first_step(), std::nullopt);
}

TEST_F(StepPaceTest, StepsOfAFastJobAreThereAtTheFirstLook) {
  See(kFirst + 20, 10);
  EXPECT_EQ(pace_.Median(), absl::Seconds(0.5));
  EXPECT_EQ(pace_.first_step(), absl::Seconds(10)) << "at most";
}

TEST_F(StepPaceTest, WhatTheCoordinatorStoodStillForIsNobodysTime) {
  See(kFirst, 0);
  pace_.Excuse(absl::Seconds(90), After(100));
  See(kFirst + 1, 110);
  EXPECT_EQ(pace_.Median(), absl::Seconds(20));
}

}  // namespace
}  // namespace strata::server

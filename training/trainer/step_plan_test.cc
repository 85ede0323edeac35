#include "training/trainer/step_plan.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::training {
namespace {

using client::StepRanks;
using ::testing::ElementsAre;

proto::Job Parse(const std::string& text) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &job));
  return job;
}

ViewPlan Plan(const std::string& job, uint64_t samples, uint32_t ranks) {
  const absl::StatusOr<ViewPlan> plan = ViewPlan::Make(Parse(job), samples, ranks);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *plan : ViewPlan();
}

// Returns who makes each step, from the number of ranks.
std::vector<StepRanks> Steps(const std::vector<uint32_t>& ranks) {
  std::vector<StepRanks> steps;
  uint64_t before = 0;
  for (const uint32_t count : ranks) {
    steps.push_back({.ranks = count, .rank_steps_before = before});
    before += count;
  }
  return steps;
}

TEST(ViewPlan, IsTheStepPlanWhereAllStepsHaveTheRanksOfTheJob) {
  std::mt19937 random(3);
  const auto upto = [&random](uint32_t most) { return random() % (most + 1); };
  for (int round = 0; round < 300; ++round) {
    const uint32_t ranks = 1 + upto(6);
    const uint64_t samples = 8 * ranks + upto(300);
    const std::string text = absl::StrCat(
        "data { batch_per_rank: ", 1 + upto(7), " } epochs: ", upto(3),
        " max_steps: ", upto(1) * 17, " metrics { every_steps: ", 1 + upto(9), " } evaluation { ",
        upto(1) == 1 ? "every_steps: " : "every_epochs: ", 1 + upto(3), " }");
    SCOPED_TRACE(absl::StrCat(text, " of ", samples, " samples and ", ranks, " ranks"));
    const ViewPlan plan = Plan(text, samples, ranks);
    const absl::StatusOr<StepPlan> fixed = MakeStepPlan(Parse(text), samples, ranks);
    ASSERT_TRUE(fixed.ok());
    EXPECT_EQ(plan.batch(), fixed->batch);
    EXPECT_EQ(plan.samples_per_epoch(), fixed->steps_per_epoch * ranks * fixed->batch);
    EXPECT_EQ(plan.total_steps(), fixed->total_steps);
    for (uint64_t step = 0; step < fixed->total_steps + 2; ++step) {
      const StepRanks by = {.ranks = ranks, .rank_steps_before = step * ranks};
      ASSERT_EQ(plan.IsOver(step, by), step >= fixed->total_steps);
      ASSERT_EQ(plan.IsLast(step, by), step + 1 >= fixed->total_steps);
      ASSERT_EQ(plan.Evaluates(step, by), fixed->Evaluates(step));
      const bool ends = (step + 1) % fixed->report_every == 0 ||
                        (step + 1) % fixed->steps_per_epoch == 0 || fixed->Evaluates(step) ||
                        step + 1 >= fixed->total_steps;
      ASSERT_EQ(plan.EndsWindow(step, by), ends);
    }
  }
}

// 4 steps of 2 ranks make an epoch of 8 batches.
constexpr char kEightBatches[] = "data { batch_per_rank: 10 } metrics { every_steps: 100 } ";

TEST(ViewPlan, EpochsAndTheJobEndWithTheSamplesWhateverRanksComeAndGo) {
  const ViewPlan plan = Plan(absl::StrCat(kEightBatches, "epochs: 3"), 85, 2);
  EXPECT_EQ(plan.batches_per_epoch(), 8u);
  EXPECT_EQ(plan.samples_per_epoch(), 80u);
  // Used before each:                    0  2  5  8  11 12 13 18 23 28
  const std::vector<StepRanks> steps = Steps({2, 3, 3, 3, 1, 1, 5, 5, 5, 3});
  std::vector<uint64_t> ends, over, last;
  for (uint64_t step = 0; step < steps.size(); ++step) {
    if (plan.Evaluates(step, steps[step])) ends.push_back(step);
    if (plan.IsLast(step, steps[step])) last.push_back(step);
    if (plan.IsOver(step, steps[step])) over.push_back(step);
    EXPECT_EQ(plan.EndsWindow(step, steps[step]), plan.Evaluates(step, steps[step]) || step >= 8);
  }
  EXPECT_THAT(ends, ElementsAre(2, 6, 8));
  EXPECT_THAT(last, ElementsAre(8, 9));
  EXPECT_THAT(over, ElementsAre(9));
}

TEST(ViewPlan, MeasuresAfterSoManyEpochsOrSteps) {
  const std::vector<StepRanks> steps = Steps({2, 3, 3, 3, 1, 1, 5, 5, 5, 5});
  const auto measured = [&steps](const std::string& every) {
    const ViewPlan plan = Plan(absl::StrCat(kEightBatches, "evaluation { ", every, " }"), 85, 2);
    std::vector<uint64_t> after;
    for (uint64_t step = 0; step < steps.size(); ++step) {
      if (plan.Evaluates(step, steps[step])) after.push_back(step);
    }
    return after;
  };
  EXPECT_THAT(measured("every_epochs: 2"), ElementsAre(6, 9));
  EXPECT_THAT(measured("every_steps: 3"), ElementsAre(2, 5, 8));
}

TEST(ViewPlan, AStepMayBeOfMoreThanAnEpoch) {
  const ViewPlan plan = Plan(absl::StrCat(kEightBatches, "epochs: 3 ranks_max: 8"), 85, 2);
  EXPECT_TRUE(plan.Evaluates(0, {.ranks = 17, .rank_steps_before = 0}));
  EXPECT_FALSE(plan.IsLast(0, {.ranks = 17, .rank_steps_before = 0}));
  EXPECT_FALSE(plan.Evaluates(1, {.ranks = 6, .rank_steps_before = 17}));
  EXPECT_TRUE(plan.Evaluates(1, {.ranks = 7, .rank_steps_before = 17}));
}

TEST(ViewPlan, AJobCountedInStepsGoesToTheSameStepWhoeverMakesThem) {
  const ViewPlan plan = Plan(absl::StrCat(kEightBatches, "max_steps: 7 ranks_max: 8"), 85, 2);
  EXPECT_EQ(plan.total_steps(), 7u);
  for (const uint32_t ranks : {1, 8}) {
    const std::vector<StepRanks> steps = Steps(std::vector<uint32_t>(8, ranks));
    EXPECT_FALSE(plan.IsOver(6, steps[6]));
    EXPECT_TRUE(plan.IsLast(6, steps[6]));
    EXPECT_TRUE(plan.IsOver(7, steps[7]));
  }
}

TEST(ViewPlan, HowManyStepsEpochsHaveIsNotKnownWhereNodesComeAndGo) {
  for (const std::string job : {"epochs: 3", "", "epochs: 3 max_steps: 5"}) {
    EXPECT_EQ(Plan(absl::StrCat(kEightBatches, job, " ranks_max: 8"), 85, 2).total_steps(), 0u);
    EXPECT_EQ(Plan(absl::StrCat(kEightBatches, job, " ranks_min: 1"), 85, 2).total_steps(), 0u);
    EXPECT_NE(Plan(absl::StrCat(kEightBatches, job), 85, 2).total_steps(), 0u);
  }
}

TEST(ViewPlan, TheMostRanksHaveABatchEach) {
  EXPECT_TRUE(ViewPlan::Make(Parse(absl::StrCat(kEightBatches, "ranks_max: 8")), 85, 2).ok());
  EXPECT_EQ(
      ViewPlan::Make(Parse(absl::StrCat(kEightBatches, "ranks_max: 9")), 85, 2).status().message(),
      "the 85 training samples are fewer than one step needs (9 ranks x batch_per_rank 10)");
}

}  // namespace
}  // namespace strata::training

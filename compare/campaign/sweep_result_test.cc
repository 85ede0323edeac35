#include "compare/campaign/sweep_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/campaign/campaign_fixture.h"
#include "compare/campaign/sample_sweep.h"

namespace strata::compare {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Optional;

SweepPlan ResultPlanOf(const std::string& vary, uint32_t halving, uint32_t seeds = 1) {
  const auto campaign =
      DescribeSweep({.job = TinyJob(), .vary = {vary}, .seeds = seeds, .halving = halving});
  EXPECT_TRUE(campaign.ok()) << campaign.status();
  const auto plan = PlanSweep(*campaign);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

proto::RunRecord RunWith(double accuracy, uint64_t seed = 1) {
  return MakeRecord({.accuracy = accuracy, .seed = seed});
}

std::vector<size_t> Order(const SweepResult& result) {
  std::vector<size_t> order;
  for (const PointResult& point : result.ranking) order.push_back(point.point);
  return order;
}

TEST(SweepResult, PointsGoByAccuracyAndFailedOnesComeLast) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 0);
  const SweepResult result =
      RankResults(plan, {{{0, 1, 2, 3}, {RunWith(0.5), RunWith(-1), RunWith(0.7), RunWith(0.5)}}});
  EXPECT_THAT(Order(result), ElementsAre(2, 0, 3, 1));
  EXPECT_EQ(result.ranking[0].accuracy->mean, 0.7);
  EXPECT_EQ(result.ranking[0].steps, 100u);
  EXPECT_FALSE(result.ranking[3].accuracy.has_value());
  EXPECT_EQ(result.ranking[3].runs[0].failure, "rank 0: loss is NaN at step 3");
  EXPECT_EQ(result.samples, 4u * 6400);
  EXPECT_EQ(result.grid_samples, 4u * 6400);
}

TEST(SweepResult, AccuracyIsTheMeanOverSeedsAllOfWhichHaveFinished) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2", 0, 2);
  const RungRuns rung = {{0, 1}, {RunWith(0.4), RunWith(0.9), RunWith(0.6, 2), RunWith(-1, 2)}};
  EXPECT_THAT(MeanAccuracies(rung), ElementsAre(Optional(0.5), std::nullopt));
  const SweepResult result = RankResults(plan, {rung});
  EXPECT_THAT(Order(result), ElementsAre(0, 1));
  EXPECT_EQ(result.ranking[0].runs.size(), 2u);
  EXPECT_EQ(result.ranking[0].accuracy->count, 2);
}

TEST(SweepResult, OfARungUnderWayPointsCountWhoseSeedsAreAllMade) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3", 0, 2);
  std::vector<std::optional<proto::RunRecord>> records(6);
  records[0] = RunWith(0.1);
  records[1] = RunWith(0.4);
  records[2] = RunWith(0.6);
  records[4] = RunWith(0.8, 2);
  records[5] = RunWith(0.2, 2);
  const RungRuns made = MadeOf({0, 1, 2}, records);
  EXPECT_THAT(made.points, ElementsAre(1, 2));
  EXPECT_THAT(MeanAccuracies(made),
              ElementsAre(Optional(DoubleNear(0.6, 1e-9)), Optional(DoubleNear(0.4, 1e-9))));
  EXPECT_THAT(Order(RankResults(plan, {made})), ElementsAre(1, 2)) << "the first is left out";
}

TEST(SweepResult, WithHalvingTheMostBudgetGoesFirst) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 2);
  const SweepResult result =
      RankResults(plan, {{{0, 1, 2, 3}, {RunWith(0.3), RunWith(0.9), RunWith(0.4), RunWith(0.2)}},
                         {{1, 2}, {RunWith(0.3), RunWith(0.5)}},
                         {{2}, {RunWith(0.1)}}});
  EXPECT_THAT(Order(result), ElementsAre(2, 1, 0, 3));
  EXPECT_EQ(result.ranking[0].steps, 100u);
  EXPECT_EQ(result.ranking[0].rung, 2u);
  EXPECT_EQ(result.ranking[1].steps, 50u);
  EXPECT_EQ(result.ranking[3].steps, 25u);
  EXPECT_EQ(result.samples, 64u * (4 * 25 + 2 * 50 + 100));
  EXPECT_EQ(result.grid_samples, 64u * 400);
}

TEST(SweepResult, WhatRunsWentOnFromIsNotMadeAgain) {
  const SweepPlan plan = ResultPlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 2);
  const auto gone_on = [](double accuracy, uint64_t step) {
    proto::RunRecord record = RunWith(accuracy);
    record.set_resumed_step(step);
    record.set_resumed_samples(64 * step);
    return record;
  };
  proto::RunRecord anew = RunWith(0.3);
  anew.set_began_anew("no complete checkpoint");
  const SweepResult result =
      RankResults(plan, {{{0, 1, 2, 3}, {RunWith(0.3), RunWith(0.9), RunWith(0.4), RunWith(0.2)}},
                         {{1, 2}, {anew, gone_on(0.5, 25)}},
                         {{2}, {gone_on(0.1, 50)}}});
  EXPECT_EQ(result.samples, 64u * (4 * 25 + (50 + 25) + 50));
  EXPECT_EQ(result.later_runs, 3u);
  EXPECT_EQ(result.resumed_runs, 2u);
  EXPECT_EQ(result.later_steps, 2u * 50 + 100);
  EXPECT_EQ(result.resumed_steps, 25u + 50);
  EXPECT_EQ(result.ranking[0].runs[0].resumed_step, 50u);
  EXPECT_EQ(result.ranking[1].runs[0].began_anew, "no complete checkpoint");
}

}  // namespace
}  // namespace strata::compare

#include "compare/sweep/sweep_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/job/job.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

// 4 ranks of 16 samples: 100 steps of 64.
SweepPlan PlanOf(const std::string& vary, uint32_t halving, uint32_t seeds = 1) {
  const auto job = ParseJob(R"(
      name: "tiny" model { zoo: "mlp" }
      data { synthetic { train_samples: 3200 test_samples: 64 } batch_per_rank: 16 }
      ranks: 4 epochs: 2 )",
                            "tiny.textproto");
  EXPECT_TRUE(job.ok()) << job.status();
  const auto campaign = SweepOf({.job = *job, .vary = {vary}, .seeds = seeds, .halving = halving});
  EXPECT_TRUE(campaign.ok()) << campaign.status();
  const auto plan = PlanSweep(*campaign);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

// A run with such an accuracy; below 0: it has failed.
proto::RunRecord RunWith(double accuracy, uint64_t seed = 1) {
  proto::RunRecord record;
  record.set_seed(seed);
  record.set_trained_s(2);
  record.set_samples(6400);
  record.set_steps(100);
  record.set_updates(100);
  if (accuracy < 0) record.set_failure("rank 0: loss is NaN at step 3");
  proto::Measurement* measurement = record.add_measurements();
  measurement->set_step(100);
  measurement->set_samples(6400);
  measurement->set_updates(100);
  measurement->set_trained_s(2);
  measurement->set_accuracy(accuracy);
  return record;
}

std::vector<size_t> Order(const SweepResult& result) {
  std::vector<size_t> order;
  for (const PointResult& point : result.ranking) order.push_back(point.point);
  return order;
}

TEST(SweepResult, PointsGoByAccuracyAndFailedOnesComeLast) {
  const SweepPlan plan = PlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 0);
  const SweepResult result =
      ResultOf(plan, {{{0, 1, 2, 3}, {RunWith(0.5), RunWith(-1), RunWith(0.7), RunWith(0.5)}}});
  EXPECT_THAT(Order(result), ElementsAre(2, 0, 3, 1));
  EXPECT_EQ(result.ranking[0].accuracy->mean, 0.7);
  EXPECT_EQ(result.ranking[0].steps, 100u);
  EXPECT_FALSE(result.ranking[3].accuracy.has_value());
  EXPECT_EQ(result.ranking[3].runs[0].failure, "rank 0: loss is NaN at step 3");
  EXPECT_EQ(result.samples, 4u * 6400);
  EXPECT_EQ(result.grid_samples, 4u * 6400);
}

TEST(SweepResult, AccuracyIsTheMeanOverSeedsAllOfWhichHaveFinished) {
  const SweepPlan plan = PlanOf("schedule.base_lr=0.1,0.2", 0, 2);
  const RungRuns rung = {{0, 1}, {RunWith(0.4), RunWith(0.9), RunWith(0.6, 2), RunWith(-1, 2)}};
  EXPECT_THAT(AccuraciesOf(rung), ElementsAre(Optional(0.5), std::nullopt));
  const SweepResult result = ResultOf(plan, {rung});
  EXPECT_THAT(Order(result), ElementsAre(0, 1));
  EXPECT_EQ(result.ranking[0].runs.size(), 2u);
  EXPECT_EQ(result.ranking[0].accuracy->count, 2);
}

TEST(SweepResult, WithHalvingTheMostBudgetGoesFirst) {
  const SweepPlan plan = PlanOf("schedule.base_lr=0.1,0.2,0.3,0.4", 2);
  const SweepResult result =
      ResultOf(plan, {{{0, 1, 2, 3}, {RunWith(0.3), RunWith(0.9), RunWith(0.4), RunWith(0.2)}},
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

}  // namespace
}  // namespace strata::compare

#include "compare/sweep/sweep_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/job/job.h"
#include "compare/campaign/campaign_plan.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 4 ranks of 16 samples, 3,200 samples: 50 steps an epoch, 100 in all.
SweepRequest RequestOf(const std::vector<std::string>& vary, const std::string& more = "") {
  const auto job = ParseJob(R"(
      name: "tiny" model { zoo: "mlp" }
      data { synthetic { train_samples: 3200 test_samples: 64 } batch_per_rank: 16 }
      ranks: 4 epochs: 2 consistency { async {} } )" +
                                more,
                            "tiny.textproto");
  EXPECT_TRUE(job.ok()) << job.status();
  return {.job = *job, .vary = vary, .cluster = "2 nodes", .version = "strata 1"};
}

absl::StatusOr<SweepPlan> PlanOf(const SweepRequest& request) {
  const auto campaign = DescribeSweep(request);
  if (!campaign.ok()) return campaign.status();
  return PlanSweep(*campaign);
}

std::string Refusal(const SweepRequest& request) {
  const absl::Status status = PlanOf(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::Not(HasSubstr("\n")));
  return std::string(status.message());
}

TEST(SweepPlan, APointIsTheJobWithItsSettings) {
  const auto plan = PlanOf(RequestOf({"schedule.base_lr=0.5,0.25", "data.batch_per_rank=16,32"}));
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->points.size(), 4u);
  const SweepPoint& point = plan->points[3];
  EXPECT_EQ(point.plan.mode, "schedule.base_lr=0.25+data.batch_per_rank=32");
  EXPECT_EQ(point.plan.job.schedule().base_lr(), 0.25);
  EXPECT_EQ(point.plan.job.data().batch_per_rank(), 32u);
  EXPECT_TRUE(point.plan.job.consistency().has_async());
  EXPECT_EQ(point.plan.job.seed(), 1u);
  EXPECT_EQ(point.steps, 50u);
  EXPECT_EQ(plan->points[0].steps, 100u);
  // At the end alone.
  EXPECT_EQ(point.plan.job.evaluation().every_steps(), 50u);
  EXPECT_TRUE(point.plan.job.evaluation().deferred());
  ASSERT_EQ(plan->rungs.size(), 1u);
  EXPECT_EQ(SamplesOfRung(*plan, plan->rungs[0], {0, 3}), 2u * 6400);
}

TEST(SweepPlan, RungsHaveSharesOfTheStepsAndTheLastTheJobItself) {
  SweepRequest request = RequestOf({"schedule.base_lr=0.1,0.2,0.3,0.4"});
  request.halving = 2;
  request.seeds = 2;
  const auto plan = PlanOf(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->rungs.size(), 3u);
  const std::vector<RunPlan> first = RunsOfRung(*plan, plan->rungs[0], {0, 1, 2, 3});
  ASSERT_EQ(first.size(), 8u);
  EXPECT_EQ(first[5].mode, "schedule.base_lr=0.2+max_steps=25");
  EXPECT_EQ(first[5].job.max_steps(), 25u);
  EXPECT_EQ(first[5].job.evaluation().every_steps(), 25u);
  EXPECT_EQ(first[5].job.seed(), 2u);
  EXPECT_EQ(*TotalSteps(first[5].job), 25u);
  const std::vector<RunPlan> last = RunsOfRung(*plan, plan->rungs[2], {2});
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].mode, "schedule.base_lr=0.3");
  EXPECT_EQ(JobToText(last[0].job), JobToText(plan->points[2].plan.job));
  EXPECT_EQ(SamplesOfRung(*plan, plan->rungs[0], {0, 1, 2, 3}), 4u * 2 * 25 * 64);
  EXPECT_EQ(SamplesOfRung(*plan, plan->rungs[2], {2}), 2u * 100 * 64);
}

TEST(SweepPlan, MeasurementsThatTheJobAsksForStay) {
  const auto plan = PlanOf(RequestOf({"ranks=1,2"}, "evaluation { every_epochs: 1 }"));
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->points[0].plan.job.evaluation().every_epochs(), 1u);
  EXPECT_EQ(plan->points[0].plan.job.evaluation().every_steps(), 0u);
}

TEST(SweepPlan, WhatCannotBeSweptIsRefused) {
  EXPECT_EQ(Refusal(RequestOf({})), "nothing to vary");
  EXPECT_THAT(Refusal(RequestOf({"schedule.lr=1,2"})),
              HasSubstr("setting \"schedule.lr=1\": Schedule has no field named \"lr\""));
  EXPECT_THAT(Refusal(RequestOf({"schedule.base_lr=0.1,-1"})),
              HasSubstr("point schedule.base_lr=-1: "));
  EXPECT_EQ(Refusal(RequestOf({"seed=1,2"})), "point seed=2: seed: it is --seeds that varies it");
  EXPECT_EQ(Refusal(RequestOf({"schedule.base_lr=0.5,0.50"})),
            "point schedule.base_lr=0.50: is the same job as point schedule.base_lr=0.5");
  EXPECT_THAT(Refusal(RequestOf({"exchange=MPI"})), HasSubstr("exchange: MPI"));
  EXPECT_THAT(Refusal(RequestOf({"data.batch_per_rank=16,3200"})),
              HasSubstr("point data.batch_per_rank=3200: "));
  EXPECT_THAT(Refusal(RequestOf({"run_dir=a,b"})), HasSubstr("run_dir: a: "));
}

TEST(SweepPlan, HalvingNeedsPointsAndSteps) {
  SweepRequest request = RequestOf({"schedule.base_lr=0.1,0.2"});
  request.halving = 3;
  EXPECT_EQ(Refusal(request), "halving: 3 needs as many points at least, there are 2");
  request = RequestOf({"schedule.base_lr=0.1,0.2,0.3,0.4", "max_steps=3,100"});
  request.halving = 2;
  EXPECT_EQ(Refusal(request),
            "point schedule.base_lr=0.1+max_steps=3: halving: a first rung of 1/8 of its 3 steps "
            "is none");
}

}  // namespace
}  // namespace strata::compare

#include "optimizer/update_rule.h"

#include <string>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata::kernels {
namespace {

proto::Job JobOf(const std::string& text) {
  proto::Job job = *ParseJob(text, "job");
  FillDefaults(&job);
  return job;
}

TEST(UpdateRule, TakesTheRateFromTheScheduleOrFromTheStep) {
  const proto::Job job = JobOf("schedule { base_lr: 0.5 warmup_epochs: 2 }");
  const StepRate step = {.said = 0.125, .damping = 0.5};
  EXPECT_EQ(UpdateAt(MakeUpdateRule(job, 100), 100, 1, step).lr, 0.125) << "half warmed up";
  EXPECT_EQ(UpdateAt(MakeUpdateRule(job, 0, /*says_rates=*/true), 100, 1, step).lr, 0.0625);
  EXPECT_EQ(UpdateAt(MakeLocalUpdateRule(job, 0, /*says_rates=*/true), 100, 1).lr, 0);
}

TEST(UpdateRule, WhatIsMadeOfRoundsHasRatesOfItsOwn) {
  const proto::Job local = JobOf("consistency { lazy { local_steps: 2 outer { lr: 0.5 } } }");
  const StepRate step = {.said = 0.125};
  EXPECT_EQ(UpdateAt(MakeUpdateRule(local, 0, /*says_rates=*/true), 1, 1, step).lr, 0.5);
  EXPECT_EQ(UpdateAt(MakeLocalUpdateRule(local, 0, /*says_rates=*/true), 1, 1, step).lr, 0.125);
}

TEST(UpdateRule, RmspropsShareFollowsTheRateThatIsSaidAndIsNoneAtZero) {
  const proto::Job job = JobOf(
      "optimizer { rmsprop_warmup { center_epochs: 1 width_epochs: 1 rms_lr: 0.25 } } "
      "schedule { base_lr: 100 }");
  const UpdateRule rule = MakeUpdateRule(job, 100, /*says_rates=*/true);
  const Update half = UpdateAt(rule, 100, 1, {.said = 0.5});
  EXPECT_EQ(half.sgd_share, 0.5f);
  EXPECT_EQ(half.rms_share, 0.25f) << "(1 - 0.5) * 0.25 / 0.5";
  EXPECT_EQ(UpdateAt(rule, 100, 1, {.said = 0}).rms_share, 0.0f);
}

}  // namespace
}  // namespace strata::kernels

#include "numerics/update.h"

#include <string>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata::numerics {

namespace {

TEST(ApplyUpdate, GivesEachRunItsOwnRateAndDecay) {
  OptimizerParams params;
  params.kind = OptimizerKind::kSgd;
  params.weight_decay = 0.5f;
  const std::vector<OptimizerRun> runs = {{0, 2, 1.0f, 1.0f}, {2, 1, 2.0f, 0.0f}};
  const std::vector<float> gradient = {4.0f, 8.0f, 16.0f};
  const std::vector<float> w = {1.0f, 2.0f, 3.0f};
  std::vector<float> next(3);
  ApplyUpdate(kernels::Cpu(), params, {.lr = 0.25, .gradient_scale = 0.5f, .number = 1}, runs,
              gradient.data(), w.data(), next.data(), nullptr, nullptr);
  EXPECT_EQ(next,
            (std::vector<float>{1.0f - 0.25f * 2.5f, 2.0f - 0.25f * 5.0f, 3.0f - 0.5f * 8.0f}));
}

TEST(ApplyUpdate, RunsThatAreAveragedBecomeTheMean) {
  OptimizerParams params;
  params.kind = OptimizerKind::kSgd;
  const std::vector<OptimizerRun> runs = {{.offset = 0, .count = 1},
                                          {.offset = 1, .count = 2, .averaged = true}};
  const std::vector<float> sum = {4.0f, 8.0f, 16.0f};
  std::vector<float> w = {1.0f, 2.0f, 3.0f};
  ApplyUpdate(kernels::Cpu(), params, {.lr = 0.5, .gradient_scale = 0.25f}, runs, sum.data(),
              w.data(), w.data(), nullptr, nullptr);
  EXPECT_EQ(w, (std::vector<float>{0.5f, 2.0f, 4.0f}));
}

TEST(ApplyUpdate, KeepsStateOfEveryRunInPlace) {
  OptimizerParams params;
  params.kind = OptimizerKind::kMomentumSgd;
  params.momentum = 0.5f;
  const std::vector<OptimizerRun> runs = {{0, 1, 1.0f, 1.0f}, {1, 1, 1.0f, 0.0f}};
  const std::vector<float> gradient = {1.0f, 2.0f};
  std::vector<float> w = {0.0f, 0.0f}, v = {4.0f, 8.0f};
  ApplyUpdate(kernels::Cpu(), params, {.lr = 1.0, .gradient_scale = 1.0f, .number = 3}, runs,
              gradient.data(), w.data(), w.data(), v.data(), nullptr);
  EXPECT_EQ(v, (std::vector<float>{3.0f, 6.0f}));
  EXPECT_EQ(w, (std::vector<float>{-3.0f, -6.0f}));
}

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

}  // namespace strata::numerics

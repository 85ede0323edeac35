#include <cmath>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

constexpr uint64_t kSamplesPerEpoch = 1000;
constexpr uint32_t kEpochs = 10;

proto::Schedule JobSchedule(const std::vector<std::string>& settings) {
  proto::Job job;
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  FillDefaults(&job);
  return job.schedule();
}

double At(const proto::Schedule& schedule, uint64_t samples) {
  return LearningRateAt(schedule, samples, kSamplesPerEpoch, kEpochs);
}

TEST(LearningRateAt, ConstantStaysAtTheBase) {
  const proto::Schedule schedule = JobSchedule({"schedule.base_lr=0.5"});
  EXPECT_EQ(At(schedule, 0), 0.5);
  EXPECT_EQ(At(schedule, 123456), 0.5);
  EXPECT_EQ(LearningRateAt(schedule, 64, 0, 0), 0.5);
}

TEST(LearningRateAt, WarmUpIsALinearRampFromZero) {
  const proto::Schedule schedule =
      JobSchedule({"schedule.base_lr=0.5", "schedule.warmup_epochs=2"});
  EXPECT_EQ(At(schedule, 0), 0.0);
  EXPECT_DOUBLE_EQ(At(schedule, 500), 0.125);
  EXPECT_DOUBLE_EQ(At(schedule, 1000), 0.25);
  EXPECT_DOUBLE_EQ(At(schedule, 2000), 0.5);
}

TEST(LearningRateAt, IsContinuousWhereTheWarmUpEnds) {
  for (const char* shape : {"schedule.constant={}", "schedule.cosine={final_lr: 0.1}",
                            "schedule.step={boundaries_epochs: 5}"}) {
    const proto::Schedule schedule =
        JobSchedule({"schedule.base_lr=0.5", "schedule.warmup_epochs=2", shape});
    EXPECT_NEAR(At(schedule, 1999), 0.5, 0.5 / 2000 + 1e-12) << shape;
    EXPECT_DOUBLE_EQ(At(schedule, 2000), 0.5) << shape;
    EXPECT_NEAR(At(schedule, 2001), 0.5, 1e-6) << shape;
  }
}

TEST(LearningRateAt, StepMultipliesByGammaAtEachBoundary) {
  const proto::Schedule schedule =
      JobSchedule({"schedule.base_lr=1",
                   "schedule.step={boundaries_epochs: 2 boundaries_epochs: 4.5 gamma: 0.5}"});
  EXPECT_EQ(At(schedule, 1999), 1.0);
  EXPECT_EQ(At(schedule, 2000), 0.5);
  EXPECT_EQ(At(schedule, 4499), 0.5);
  EXPECT_EQ(At(schedule, 4500), 0.25);
}

TEST(LearningRateAt, CosineFollowsItsFormulaAfterTheWarmUp) {
  const proto::Schedule schedule = JobSchedule(
      {"schedule.base_lr=0.5", "schedule.warmup_epochs=2", "schedule.cosine={final_lr: 0.125}"});
  for (uint64_t samples = 2000; samples <= 10000; samples += 500) {
    const double progress = (samples / 1000.0 - 2) / 8;
    EXPECT_NEAR(At(schedule, samples), 0.125 + 0.375 * (1 + std::cos(M_PI * progress)) / 2, 1e-12);
  }
  EXPECT_NEAR(At(schedule, 6000), (0.5 + 0.125) / 2, 1e-12);
}

TEST(LearningRateAt, CosineStaysAtItsEnd) {
  const proto::Schedule schedule = JobSchedule({"schedule.cosine={final_lr: 0.125}"});
  EXPECT_DOUBLE_EQ(At(schedule, 10000), 0.125);
  EXPECT_DOUBLE_EQ(At(schedule, 99999), 0.125);
}

TEST(JobSchedule, ScalesTheRateWithTheSamplesOfAStep) {
  proto::Job job;
  ASSERT_TRUE(ApplySettings({"ranks=8", "data.batch_per_rank=64", "schedule.base_lr=0.125",
                             "schedule.base_batch=256"},
                            &job)
                  .ok());
  FillDefaults(&job);
  EXPECT_EQ(strata::JobSchedule(job).base_lr(), 0.25f);
  job.mutable_schedule()->mutable_cosine()->set_final_lr(0.0625f);
  EXPECT_EQ(strata::JobSchedule(job).cosine().final_lr(), 0.0625f) << "as it stands";
  job.mutable_schedule()->set_base_batch(0);
  EXPECT_EQ(strata::JobSchedule(job).base_lr(), 0.125f);
}

TEST(RmspropShares, PassFromRmspropToSgdWithoutAStepOrAKink) {
  OptimizerParams params;
  params.rms_lr = 0.25f;
  params.center_epochs = 10;
  params.width_epochs = 5;
  const auto sgd = [&](double epoch) { return RmspropSharesAt(params, epoch, 0.5).sgd; };
  EXPECT_NEAR(sgd(0), 0.5 * std::exp(-4.0), 1e-12);
  EXPECT_DOUBLE_EQ(sgd(10), 0.5);
  EXPECT_NEAR(sgd(11), 0.7, 1e-12);
  EXPECT_EQ(sgd(12.5), 1);
  EXPECT_EQ(sgd(90), 1);
  constexpr double kStep = 1e-6;
  for (double joint : {10.0, 12.5}) {
    EXPECT_NEAR(sgd(joint - kStep), sgd(joint + kStep), kStep) << joint;
  }
  // The slopes meet at the first joint.
  const double before = (sgd(10) - sgd(10 - kStep)) / kStep;
  const double after = (sgd(10 + kStep) - sgd(10)) / kStep;
  EXPECT_NEAR(before, 0.2, 1e-5);
  EXPECT_NEAR(after, 0.2, 1e-5);
  // What SGD lacks is RMSprop's, at its own rate.
  EXPECT_NEAR(RmspropSharesAt(params, 11, 0.5).rms, 0.3 * 0.25 / 0.5, 1e-12);
  EXPECT_EQ(RmspropSharesAt(params, 12.5, 0).rms, 0);
}

TEST(MakeOptimizerParams, TakesEachKindsConstants) {
  const auto params = [](const char* setting) {
    proto::Job job;
    EXPECT_TRUE(ApplySettings({setting}, &job).ok());
    FillDefaults(&job);
    return MakeOptimizerParams(job.optimizer());
  };
  EXPECT_EQ(params("optimizer.sgd.weight_decay=0.5").kind, OptimizerKind::kSgd);
  EXPECT_EQ(params("optimizer.sgd.weight_decay=0.5").weight_decay, 0.5f);
  EXPECT_EQ(params("optimizer.momentum_sgd.momentum=0.5").kind, OptimizerKind::kMomentumSgd);
  EXPECT_EQ(params("optimizer.momentum_sgd.momentum=0.5").momentum, 0.5f);
  EXPECT_EQ(params("optimizer.nesterov={}").kind, OptimizerKind::kNesterov);
  const OptimizerParams adam = params("optimizer.adam={beta1: 0.1 beta2: 0.2 epsilon: 0.3}");
  EXPECT_EQ(adam.kind, OptimizerKind::kAdam);
  EXPECT_EQ(adam.beta1, 0.1f);
  EXPECT_EQ(adam.beta2, 0.2f);
  EXPECT_EQ(adam.epsilon, 0.3f);
  EXPECT_EQ(params("optimizer.adamw={}").kind, OptimizerKind::kAdamW);
  EXPECT_EQ(params("optimizer.adamw={}").weight_decay, 0.01f);
  EXPECT_EQ(params("optimizer.lars={}").kind, OptimizerKind::kMomentumSgd);
  EXPECT_EQ(params("optimizer.lars={}").weight_decay, 5e-4f);
  const OptimizerParams rmsprop = params("optimizer.rmsprop_warmup={width_epochs: 3}");
  EXPECT_EQ(rmsprop.kind, OptimizerKind::kRmspropWarmup);
  EXPECT_EQ(rmsprop.beta2, 0.99f);
  EXPECT_EQ(rmsprop.rms_lr, 3e-4f);
  EXPECT_EQ(rmsprop.center_epochs, 10);
  EXPECT_EQ(rmsprop.width_epochs, 3);
}

}  // namespace
}  // namespace strata

#include "common/job/job.h"

#include <cmath>

#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job Apply(const std::vector<std::string>& settings, proto::Job job = {}) {
  const absl::Status status = ApplySettings(settings, &job);
  EXPECT_TRUE(status.ok()) << status;
  return job;
}

std::string ErrorOf(const std::string& setting) {
  proto::Job job;
  const absl::Status status = ApplySettings({setting}, &job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << setting;
  EXPECT_EQ(job.ByteSizeLong(), 0) << "a refused setting changes nothing";
  return std::string(status.message());
}

TEST(ApplySettings, SetsNumbersStringsBoolsAndEnums) {
  const proto::Job job = Apply({"schedule.base_lr=0.25", "name=night run", "run_dir=\"/a b\"",
                                "debug.hash_weights=true", "exchange=NONE", "ranks=3"});
  EXPECT_EQ(job.schedule().base_lr(), 0.25f);
  EXPECT_EQ(job.name(), "night run");
  EXPECT_EQ(job.run_dir(), "/a b");
  EXPECT_TRUE(job.debug().hash_weights());
  EXPECT_EQ(job.exchange(), proto::Job::NONE);
  EXPECT_EQ(job.ranks(), 3);
}

TEST(ApplySettings, TheLastOneWins) { EXPECT_EQ(Apply({"ranks=3", "ranks=5"}).ranks(), 5); }

TEST(ApplySettings, ZeroReplacesAValue) {
  EXPECT_EQ(Apply({"max_steps=7", "max_steps=0"}).max_steps(), 0);
}

TEST(ApplySettings, AMemberOfAOneofClearsTheOthers) {
  proto::Job job = Apply({"consistency.sync={}", "consistency.lazy.staleness=3"});
  EXPECT_FALSE(job.consistency().has_sync());
  EXPECT_EQ(job.consistency().lazy().staleness(), 3);
  job = Apply({"consistency.async={}"}, job);
  EXPECT_TRUE(job.consistency().has_async());
  EXPECT_FALSE(job.consistency().has_lazy());
}

TEST(ApplySettings, AMessageReplacesTheWholeMessage) {
  const proto::Job job = Apply({"schedule.warmup_epochs=2", "schedule={base_lr: 0.5}"});
  EXPECT_EQ(job.schedule().base_lr(), 0.5f);
  EXPECT_EQ(job.schedule().warmup_epochs(), 0);
}

TEST(ApplySettings, ARepeatedFieldGrows) {
  const proto::Job job =
      Apply({"debug.delays={node: 1 delay_ms: 20}", "debug.delays={node: 2 delay_ms: 5}",
             "program.args=-v", "program.args=two words", "schedule.step.boundaries_epochs=1.5"});
  ASSERT_EQ(job.debug().delays_size(), 2);
  EXPECT_EQ(job.debug().delays(1).delay_ms(), 5);
  ASSERT_EQ(job.program().args_size(), 2);
  EXPECT_EQ(job.program().args(1), "two words");
  EXPECT_EQ(job.schedule().step().boundaries_epochs(0), 1.5f);
}

TEST(ApplySettings, AValueMayHoldAnEqualsSign) {
  EXPECT_EQ(Apply({"program.args=--x=1"}).program().args(0), "--x=1");
}

TEST(ApplySettings, ErrorsNameTheSetting) {
  EXPECT_EQ(ErrorOf("ranks"), "setting \"ranks\": expected path=value");
  EXPECT_EQ(ErrorOf("=1"), "setting \"=1\": expected path=value");
  EXPECT_EQ(ErrorOf("rankz=1"), "setting \"rankz=1\": Job has no field named \"rankz\"");
  EXPECT_EQ(ErrorOf("schedule.lr=1"),
            "setting \"schedule.lr=1\": Schedule has no field named \"lr\"");
  EXPECT_EQ(ErrorOf("ranks.x=1"), "setting \"ranks.x=1\": ranks is a value and has no fields");
  EXPECT_EQ(ErrorOf("debug.delays.node=1"),
            "setting \"debug.delays.node=1\": delays is repeated: write debug.delays={...} to "
            "add to it");
  EXPECT_EQ(ErrorOf("ranks=many"), "setting \"ranks=many\": Expected integer, got: many");
  EXPECT_EQ(ErrorOf("optimizer=adam"),
            "setting \"optimizer=adam\": optimizer has fields of its own: write "
            "optimizer.adam={}");
  EXPECT_EQ(ErrorOf("schedule=0.1"),
            "setting \"schedule=0.1\": schedule has fields of its own: write schedule={...}");
  EXPECT_EQ(ErrorOf("ranks=1 epochs: 2"),
            "setting \"ranks=1 epochs: 2\": one setting sets one field");
}

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
  // RMSprop has the share that SGD lacks, at its own rate.
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

constexpr char kMinimal[] = R"(
name: "a"
model { zoo: "mlp" }
data { synthetic {} }
)";

std::string TextErrorOf(const std::string& text) {
  const absl::StatusOr<proto::Job> job = ParseJob(text, "job.textproto");
  EXPECT_EQ(job.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(job.status().message());
}

TEST(ParseJob, ReadsProtobufText) {
  const absl::StatusOr<proto::Job> job = ParseJob(kMinimal, "job.textproto");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "a");
  EXPECT_EQ(job->model().zoo(), "mlp");
}

TEST(ParseJob, NamesPlaceAndFieldOfAnUnknownField) {
  EXPECT_EQ(TextErrorOf("name: \"a\"\nrankz: 3\n"),
            "job.textproto:2:1: Message type \"strata.proto.Job\" has no field named \"rankz\".");
}

TEST(ParseJob, NamesPlaceAndFieldOfAValueOfTheWrongType) {
  EXPECT_EQ(TextErrorOf("name: \"a\"\nranks: many\n"),
            "job.textproto:2:8: ranks: Expected integer, got: many");
  EXPECT_EQ(TextErrorOf("model { zoo: 5 }\n"), "job.textproto:1:14: zoo: Expected string, got: 5");
}

TEST(ParseJob, NamesPlaceAndFieldOfAnUnknownEnumValue) {
  EXPECT_EQ(TextErrorOf("exchange: CARRIER_PIGEON\n"),
            "job.textproto:1:11: Unknown enumeration value of \"CARRIER_PIGEON\" for field "
            "\"exchange\". It is one of PARAMETER_SERVER, NONE, RING, MPI, NCCL.");
  EXPECT_EQ(TextErrorOf("push { codec: fp16 }\n"),
            "job.textproto:1:15: Unknown enumeration value of \"fp16\" for field \"codec\". It is "
            "one of FP32, FP16, BF16, INT8, ONE_BIT, TOP_K, DGC.");
}

TEST(ParseJob, NamesANumberOutOfRange) {
  EXPECT_EQ(TextErrorOf("ranks: 4294967296\n"),
            "job.textproto:1:8: ranks: Integer out of range (4294967296)");
}

TEST(ParseJob, RefusesAFieldTwiceAndTwoMembersOfAOneof) {
  EXPECT_EQ(TextErrorOf("ranks: 1\nranks: 2\n"),
            "job.textproto:2:1: Non-repeated field \"ranks\" is specified multiple times.");
  EXPECT_EQ(TextErrorOf("consistency { sync {} lazy {} }\n"),
            "job.textproto:1:23: Field \"lazy\" is specified along with field \"sync\", another "
            "member of oneof \"mode\".");
}

TEST(ParseJob, SaysWhereAnUnfinishedFileEnds) {
  EXPECT_EQ(TextErrorOf("model { zoo: \"mlp\"\n"),
            "job.textproto:2:1: Expected identifier, got: the end");
}

TEST(JobToText, ShowsDefaultsThatAreZeroAndReadsBackTheSame) {
  proto::Job job = *ParseJob(kMinimal, "job");
  FillDefaults(&job);
  const std::string text = JobToText(job);
  EXPECT_NE(text.find("exchange: PARAMETER_SERVER\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  warmup_epochs: 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  sync {}\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    momentum: 0.9\n"), std::string::npos) << text;
  const absl::StatusOr<proto::Job> again = ParseJob(text, "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), job.SerializeAsString());
}

}  // namespace
}  // namespace strata

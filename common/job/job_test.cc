#include "common/job/job.h"

#include <cmath>

#include "common/job/encoding.h"
#include "common/job/zoo.h"
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
  const OptimizerParams adagrad = params("optimizer.adagrad={initial_accumulator: 0.5}");
  EXPECT_EQ(adagrad.kind, OptimizerKind::kAdagrad);
  EXPECT_EQ(adagrad.epsilon, 1e-10f);
  EXPECT_EQ(adagrad.initial_accumulator, 0.5f);
  const OptimizerParams ftrl = params("optimizer.ftrl={l1: 0.5 l2: 0.25}");
  EXPECT_EQ(ftrl.kind, OptimizerKind::kFtrl);
  EXPECT_EQ(ftrl.l1, 0.5f);
  EXPECT_EQ(ftrl.l2, 0.25f);
  EXPECT_EQ(ftrl.beta, 1.0f);
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

proto::Job WithEncoding(const std::vector<std::string>& settings) {
  proto::Job job = *ParseJob("name: 'a' model { zoo: 'mlp' } data { synthetic {} }", "minimal");
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  FillDefaults(&job);
  return job;
}

std::string RefusalOf(const std::vector<std::string>& settings) {
  return std::string(ValidateJob(WithEncoding(settings)).message());
}

TEST(FillEncodings, WritesTheDocumentedValuesWhereTheyMeanSomething) {
  EXPECT_FALSE(WithEncoding({"push.codec=FP16"}).push().has_density());
  const proto::Encoding top_k = WithEncoding({"pull.codec=TOP_K"}).pull();
  EXPECT_EQ(top_k.density(), 0.01f);
  EXPECT_FALSE(top_k.has_momentum());
  const proto::Encoding dgc = WithEncoding({"push.codec=DGC"}).push();
  EXPECT_EQ(dgc.density(), 0.001f);
  EXPECT_EQ(dgc.momentum(), 0.9f);
  EXPECT_EQ(dgc.warmup_epochs(), 4.0f);
  EXPECT_EQ(WithEncoding({"push={codec: DGC warmup_epochs: 0}"}).push().warmup_epochs(), 0.0f);
}

TEST(FillEncodings, DgcMakesPlainSgdTheDefault) {
  EXPECT_TRUE(WithEncoding({"push.codec=DGC"}).optimizer().has_sgd());
  EXPECT_TRUE(WithEncoding({"push.codec=TOP_K"}).optimizer().has_momentum_sgd());
}

TEST(CheckEncodings, EachCodecGoesEitherWayToAndFromServersInEveryMode) {
  for (const char* mode : {"sync", "lazy", "async"}) {
    const std::string consistency = std::string("consistency.") + mode + "={}";
    for (const char* codec : {"FP32", "FP16", "BF16", "INT8", "ONE_BIT", "TOP_K"}) {
      for (const char* way : {"push", "pull"}) {
        EXPECT_EQ(RefusalOf({consistency, std::string(way) + ".codec=" + codec}), "");
      }
    }
    EXPECT_EQ(RefusalOf({consistency, "push.codec=DGC"}), "");
  }
}

TEST(CheckEncodings, RefusesNumbersOutOfRangeAndThoseThatSayNothing) {
  EXPECT_EQ(RefusalOf({"push={codec: TOP_K density: 0.6}"}),
            "push.density: 0.6 is not a number > 0 and <= 0.5");
  EXPECT_EQ(RefusalOf({"pull={codec: TOP_K density: 0}"}),
            "pull.density: 0 is not a number > 0 and <= 0.5");
  EXPECT_EQ(RefusalOf({"push={codec: DGC density: nan}"}),
            "push.density: nan is not a number > 0 and <= 0.5");
  EXPECT_EQ(RefusalOf({"push={codec: DGC momentum: 1}"}),
            "push.momentum: 1 is not a number >= 0 and < 1");
  EXPECT_EQ(RefusalOf({"push={codec: DGC warmup_epochs: -1}"}),
            "push.warmup_epochs: -1 is not a finite number >= 0");
  EXPECT_EQ(RefusalOf({"push={codec: INT8 density: 0.1}"}),
            "push.density: belongs to TOP_K and DGC, not to INT8");
  EXPECT_EQ(RefusalOf({"pull={codec: TOP_K momentum: 0.5}"}),
            "pull.momentum: belongs to DGC, not to TOP_K");
  EXPECT_EQ(RefusalOf({"push={warmup_epochs: 2}"}),
            "push.warmup_epochs: belongs to DGC, not to FP32");
}

TEST(CheckEncodings, RefusesWhatTheExchangeCannotCarry) {
  const std::vector<std::string> ring = {"exchange=RING", "ranks=2"};
  const auto in_ring = [&](const std::string& setting) {
    std::vector<std::string> settings = ring;
    settings.push_back(setting);
    return RefusalOf(settings);
  };
  EXPECT_EQ(in_ring("push.codec=FP32"), "");
  EXPECT_EQ(in_ring("push.codec=FP16"), "");
  EXPECT_EQ(in_ring("push.codec=BF16"), "");
  EXPECT_EQ(in_ring("pull.codec=FP32"), "");
  EXPECT_EQ(in_ring("push.codec=INT8"),
            "push.codec: INT8, but exchange: RING encodes at every hop, so it carries FP32, FP16 "
            "and BF16");
  EXPECT_EQ(in_ring("push.codec=DGC"),
            "push.codec: DGC, but exchange: RING encodes at every hop, so it carries FP32, FP16 "
            "and BF16");
  EXPECT_EQ(in_ring("pull.codec=FP16"),
            "pull.codec: FP16, but with exchange: RING push is for gradients and weights");
  EXPECT_EQ(RefusalOf({"exchange=NONE", "push.codec=FP16"}),
            "push.codec: FP16, but exchange: NONE carries FP32 alone");
  EXPECT_EQ(RefusalOf({"exchange=NONE", "pull.codec=INT8"}),
            "pull.codec: INT8, but exchange: NONE carries FP32 alone");
}

TEST(CheckEncodings, DgcIsForGradientsAndBringsItsOwnMomentum) {
  EXPECT_EQ(RefusalOf({"pull.codec=DGC"}),
            "pull.codec: DGC compresses gradients, but answers carry weights");
  EXPECT_EQ(RefusalOf({"push.codec=DGC", "optimizer.momentum_sgd={}"}),
            "optimizer: momentum_sgd, but push.codec: DGC has a momentum of its own and needs sgd");
  EXPECT_EQ(RefusalOf({"push.codec=DGC", "optimizer.sgd.weight_decay=0.1"}), "");
}

TEST(EncodingName, SaysWhatTravels) {
  EXPECT_EQ(EncodingsName(WithEncoding({})), "");
  EXPECT_EQ(EncodingsName(WithEncoding({"push.codec=FP16"})), "push fp16, pull fp32");
  EXPECT_EQ(EncodingsName(WithEncoding({"push.codec=DGC", "pull={codec: TOP_K density: 0.25}"})),
            "push DGC 0.1 %, pull top-k 25 %");
  EXPECT_EQ(EncodingsName(WithEncoding({"pull.codec=ONE_BIT"})), "push fp32, pull 1-bit");
  EXPECT_EQ(EncodingsName(WithEncoding({"exchange=RING", "ranks=2", "push.codec=BF16"})), "bf16");
}

TEST(Zoo, TakesTheSmallestImagesThatItSaysAndNoSmallerOnes) {
  for (const auto& [name, size] : std::vector<std::pair<std::string, uint32_t>>{
           {"cnn", 4}, {"alexnet", 63}, {"vgg16", 32}, {"googlenet", 32}, {"resnet50", 32}}) {
    EXPECT_EQ(CheckZooInput(name, "d", {3, size, size + 1, 10}), absl::OkStatus()) << name;
    EXPECT_EQ(CheckZooInput(name, "d", {3, size + 1, size - 1, 10}).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

TEST(Zoo, LeNetTakesWhatMnistHas) {
  EXPECT_EQ(CheckZooInput("lenet5", "d", {1, 28, 28, 10}), absl::OkStatus());
  EXPECT_EQ(CheckZooInput("lenet5", "d", {1, 28, 28, 9}).message(),
            "model lenet5 does not fit d (images of 1 x 28 x 28, 9 classes): it needs 1 x 28 x 28 "
            "and 10 classes");
}

TEST(Zoo, UnknownNameListsIt) {
  const absl::Status status = CheckZooInput("resnet", "d", {1, 28, 28, 10});
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "no model 'resnet' in the zoo: mlp, lenet5, cnn, resnet8, resnet20, alexnet, vgg16, "
            "googlenet, resnet50 are there");
}

}  // namespace
}  // namespace strata

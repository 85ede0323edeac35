#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job Minimal() {
  return *ParseJob("name: 'a' model { zoo: 'mlp' } data { synthetic {} }", "minimal");
}

proto::Job WithOfCheck(const std::vector<std::string>& settings) {
  proto::Job job = Minimal();
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  FillDefaults(&job);
  return job;
}

TEST(FillDefaults, WritesTheDocumentedValues) {
  const proto::Job job = WithOfCheck({});
  EXPECT_EQ(job.ranks(), 1);
  EXPECT_EQ(job.ranks_per_node(), 0);
  EXPECT_EQ(job.epochs(), 1);
  EXPECT_EQ(job.max_steps(), 0);
  EXPECT_EQ(job.seed(), 1);
  EXPECT_TRUE(job.consistency().has_sync());
  EXPECT_EQ(job.exchange(), proto::Job::PARAMETER_SERVER);
  EXPECT_EQ(job.window(), 4);
  EXPECT_EQ(job.connections(), 1);
  EXPECT_EQ(job.chunk_elements(), 0);
  EXPECT_EQ(job.evaluation().every_epochs(), 1);
  EXPECT_EQ(job.evaluation().every_steps(), 0);
  EXPECT_EQ(job.metrics().every_steps(), 50);
  EXPECT_EQ(job.rank_log_bytes(), 256 << 20);
  EXPECT_EQ(job.data().batch_per_rank(), 64);
  EXPECT_EQ(job.schedule().base_lr(), 0.05f);
  EXPECT_TRUE(job.schedule().has_constant());
  EXPECT_EQ(job.optimizer().momentum_sgd().momentum(), 0.9f);
  EXPECT_TRUE(job.optimizer().momentum_sgd().has_weight_decay());
  const proto::Synthetic& data = job.data().synthetic();
  EXPECT_EQ(data.classes(), 10);
  EXPECT_EQ(data.channels(), 1);
  EXPECT_EQ(data.height(), 28);
  EXPECT_EQ(data.width(), 28);
  EXPECT_EQ(data.train_samples(), 4096);
  EXPECT_EQ(data.test_samples(), 512);
}

TEST(FillDefaults, KnowsEachOptimizerScheduleAndMode) {
  EXPECT_EQ(WithOfCheck({"optimizer.nesterov={}"}).optimizer().nesterov().momentum(), 0.9f);
  const proto::Adam adam = WithOfCheck({"optimizer.adam={}"}).optimizer().adam();
  EXPECT_EQ(adam.beta1(), 0.9f);
  EXPECT_EQ(adam.beta2(), 0.999f);
  EXPECT_EQ(adam.epsilon(), 1e-8f);
  EXPECT_EQ(adam.weight_decay(), 0.0f);
  EXPECT_EQ(WithOfCheck({"optimizer.adamw={}"}).optimizer().adamw().weight_decay(), 0.01f);
  EXPECT_EQ(WithOfCheck({"schedule.step={boundaries_epochs: 1}"}).schedule().step().gamma(), 0.1f);
  EXPECT_EQ(WithOfCheck({"consistency.lazy={}"}).consistency().lazy().staleness(), 2);
}

TEST(FillDefaults, KeepsWhatIsGivenAlsoZero) {
  EXPECT_EQ(WithOfCheck({"consistency.lazy.staleness=0"}).consistency().lazy().staleness(), 0);
  EXPECT_EQ(WithOfCheck({"optimizer.adamw.weight_decay=0"}).optimizer().adamw().weight_decay(),
            0.0f);
  EXPECT_EQ(WithOfCheck({"max_steps=9"}).epochs(), 0) << "max_steps alone ends the job";
}

TEST(FillDefaults, IsIdempotent) {
  const proto::Job once = WithOfCheck({});
  proto::Job twice = once;
  FillDefaults(&twice);
  EXPECT_EQ(once.SerializeAsString(), twice.SerializeAsString());
}

TEST(ValidateJob, AcceptsTheMinimalJob) { EXPECT_TRUE(ValidateJob(WithOfCheck({})).ok()); }

TEST(ValidateJob, WantsOneKindOfWork) {
  proto::Job job = WithOfCheck({});
  job.clear_model();
  EXPECT_EQ(ValidateJob(job).message(), "model, program: one of them is required");
  job = WithOfCheck({});
  job.clear_data();
  EXPECT_EQ(ValidateJob(job).message(), "data: is required with model");
  EXPECT_EQ(ValidateJob(WithOfCheck({"program.path=x"})).message(),
            "data: belongs to model, a program reads its own");
}

// A job of a program, with these settings.
proto::Job Program(const std::vector<std::string>& settings) {
  proto::Job job = *ParseJob("name: 'a' program { path: '/p' } ranks: 2", "program");
  EXPECT_EQ(ApplySettings(settings, &job), absl::OkStatus());
  FillDefaults(&job);
  return job;
}

TEST(ValidateJob, AProgramThatSaysItsSamplesMayHaveWhatNeedsThem) {
  for (const char* setting :
       {"optimizer.clip_norm=1", "optimizer.lars={}", "schedule.base_batch=16"}) {
    EXPECT_EQ(ValidateJob(Program({setting, "program.samples_per_rank=8"})), absl::OkStatus())
        << setting;
    EXPECT_FALSE(ValidateJob(Program({setting})).ok()) << setting;
  }
  EXPECT_EQ(ValidateJob(Program({"optimizer.clip_norm=1"})).message(),
            "optimizer.clip_norm: needs program.samples_per_rank: nodes must know each other's "
            "samples");
  EXPECT_EQ(ValidateJob(Program({"schedule.base_batch=16"})).message(),
            "schedule.base_batch: needs program.samples_per_rank, else no batch is known");
  const proto::Job scaled = Program({"schedule.base_batch=4", "program.samples_per_rank=8"});
  EXPECT_FLOAT_EQ(JobSchedule(scaled).base_lr(), 4 * scaled.schedule().base_lr());
  EXPECT_EQ(ValidateJob(Program({"program.samples_per_rank=65537"})).message(),
            "program.samples_per_rank: 65537 is not in 0 to 65536");
}

TEST(ValidateJob, RowsMayHaveAModeOfTheirOwnAndAreFetchedAheadOutOfSync) {
  const auto refusal = [](const std::vector<std::string>& settings) {
    return std::string(ValidateJob(Program(settings)).message());
  };
  EXPECT_EQ(refusal({"rows.consistency.preset=async", "rows.lookahead=2"}), "");
  EXPECT_EQ(refusal({"rows.lookahead=2"}),
            "rows.lookahead: 2 with rows in sync, where a row has all steps before: 1, or lazy, "
            "async");
  EXPECT_EQ(refusal({"consistency.preset=async", "rows.lookahead=17"}),
            "rows.lookahead: 17 is not in 1 to 16");
  EXPECT_EQ(refusal({"rows.consistency.lazy.staleness=2000"}),
            "rows.consistency.lazy.staleness: 2000 is not in 0 to 1024");
  EXPECT_EQ(refusal({"rows.consistency.preset=easgd"}),
            "rows.consistency.async.elastic: rows do not have it");
  EXPECT_EQ(refusal({"rows.consistency.preset=none"}).substr(0, 5), "rows.");
}

TEST(ValidateJob, AProgramsVariablesHaveANameEachAndAValue) {
  EXPECT_EQ(ValidateJob(Program({"program.env=A=b=c", "program.env=B="})), absl::OkStatus());
  EXPECT_EQ(ValidateJob(Program({"program.env=A"})).message(),
            "program.env: \"A\" is not NAME=VALUE");
  EXPECT_EQ(ValidateJob(Program({"program.env==b"})).message(),
            "program.env: \"=b\" is not NAME=VALUE");
  EXPECT_EQ(ValidateJob(Program({"program.env=A=b", "program.env=A=c"})).message(),
            "program.env: A stands there twice");
}

TEST(ValidateJob, RanksMayHaveTheOptimizerWhereTheyGetTheMeanOfAllNodes) {
  for (const std::vector<std::string>& settings :
       {std::vector<std::string>{},
        {"exchange=RING"},
        {"exchange=RING", "ranks=1"},
        {"exchange=NONE", "ranks=1"},
        {"consistency.preset=delay1"},
        {"push.codec=TOP_K"},
        {"push.codec=FP16", "pull.codec=BF16"},
        {"consistency.preset=diloco(8)", "pull.codec=INT8"}}) {
    std::vector<std::string> all = settings;
    all.push_back("optimizer.mean={}");
    EXPECT_EQ(ValidateJob(Program(all)), absl::OkStatus()) << absl::StrJoin(all, " ");
  }
  const auto refusal = [](std::vector<std::string> settings) {
    settings.push_back("optimizer.mean={}");
    return std::string(ValidateJob(Program(settings)).message());
  };
  EXPECT_EQ(refusal({"consistency.async={}"}),
            "optimizer.mean: needs sync, double buffering or local_steps, not async: where updates "
            "go on without some nodes, the optimizer is the servers'");
  EXPECT_THAT(refusal({"consistency.preset=ssp(2)"}), testing::StartsWith("optimizer.mean: needs"));
  EXPECT_EQ(refusal({"optimizer.clip_norm=1"}),
            "optimizer.clip_norm: with optimizer.mean ranks clip the mean themselves");
  EXPECT_EQ(refusal({"pull.codec=INT8"}),
            "pull.codec: INT8, but optimizer.mean gives ranks gradients, which come back as FP32, "
            "FP16 or BF16");
  EXPECT_THAT(refusal({"push.codec=INT8", "exchange=RING"}),
              testing::StartsWith("push.codec: INT8"));
  EXPECT_EQ(ValidateJob(WithOfCheck({"optimizer.mean={}"})).message(),
            "optimizer.mean: needs a program, whose ranks have optimizers of their own");
}

TEST(ValidateJob, AcceptsNodesThatClipWhatTheyEncode) {
  for (const char* codec : {"TOP_K", "ONE_BIT"}) {
    EXPECT_TRUE(ValidateJob(WithOfCheck({"optimizer.clip_norm=1", "consistency.async={}",
                                         absl::StrCat("push.codec=", codec)}))
                    .ok())
        << codec;
  }
  for (const char* codec : {"FP16", "BF16", "INT8"}) {
    EXPECT_TRUE(
        ValidateJob(WithOfCheck({"optimizer.clip_norm=1", absl::StrCat("push.codec=", codec)}))
            .ok())
        << codec;
  }
}

TEST(FillDefaults, MakesSyntheticImageNetLikeImageNet) {
  const proto::Job job = WithOfCheck({"model.zoo=resnet50", "data.synthetic_imagenet={}"});
  EXPECT_EQ(job.data().synthetic_imagenet().classes(), 1000);
  EXPECT_EQ(job.data().synthetic_imagenet().size(), 224);
  EXPECT_EQ(job.data().synthetic_imagenet().train_samples(), 1281167);
  EXPECT_EQ(job.data().synthetic_imagenet().test_samples(), 512);
  EXPECT_EQ(ValidateJob(job), absl::OkStatus());
}

TEST(ValidateJob, LeavesImagesOfIdxFilesToTheRankThatReadsThem) {
  EXPECT_EQ(ValidateJob(WithOfCheck({"model.zoo=vgg16", "data.idx.dir=/d"})), absl::OkStatus());
}

struct BadJob {
  std::vector<std::string> settings;
  std::string error;
};

class ValidateBadJob : public ::testing::TestWithParam<BadJob> {};

TEST_P(ValidateBadJob, NamesFieldValueAndWhatIsAllowed) {
  const absl::Status status = ValidateJob(WithOfCheck(GetParam().settings));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    All, ValidateBadJob,
    ::testing::Values(
        BadJob{{"name="}, "name: is required"},
        BadJob{{"name=a/b"},
               "name: \"a/b\" is not 1 to 64 letters, digits, '.', '_' and '-' (not '.' first)"},
        BadJob{{"model.zoo=vgg"},
               "model.zoo: \"vgg\" is not one of mlp, lenet5, cnn, resnet8, resnet20, alexnet, "
               "vgg16, googlenet, resnet50"},
        BadJob{{"model.zoo=vgg16"},
               "model vgg16 does not fit data.synthetic (images of 1 x 28 x 28, 10 classes): it "
               "needs at least 32 x 32"},
        BadJob{{"model.zoo=alexnet", "data.cifar10.dir=/d"},
               "model alexnet does not fit data.cifar10 (images of 3 x 32 x 32, 10 classes): it "
               "needs at least 63 x 63"},
        BadJob{{"model.zoo=lenet5", "data.synthetic_imagenet={}"},
               "model lenet5 does not fit data.synthetic_imagenet (images of 3 x 224 x 224, 1000 "
               "classes): it needs 1 x 28 x 28 and 10 classes"},
        BadJob{{"ranks=1025"}, "ranks: 1025 is not in 1 to 1024"},
        BadJob{{"ranks_per_node=2000"}, "ranks_per_node: 2000 is not in 0 to 1024"},
        BadJob{{"window=1"}, "window: 1 is not in 2 to 64"},
        BadJob{{"connections=17"}, "connections: 17 is not in 1 to 16"},
        BadJob{{"replicas=2"}, "replicas: 2 is not in 0 to 1"},
        BadJob{{"replicas=1", "exchange=NONE"},
               "replicas: belongs to exchange: PARAMETER_SERVER: others have no servers"},
        BadJob{{"replicas=1", "exchange=MPI"},
               "replicas: belongs to exchange: PARAMETER_SERVER: others have no servers"},
        BadJob{{"replicas=1", "exchange=RING", "ranks=2"},
               "replicas: belongs to exchange: PARAMETER_SERVER: others have no servers"},
        BadJob{{"connections=2", "exchange=NONE"},
               "connections: belongs to exchange: PARAMETER_SERVER or RING"},
        BadJob{{"chunk_elements=255"}, "chunk_elements: 255 is not in 256 to 4194304"},
        BadJob{{"exchange=MPI", "trace.steps=5"},
               "trace: exchange: MPI has no daemons that could gather one"},
        BadJob{{"exchange=MPI", "protection=ENCRYPT"},
               "protection: ENCRYPT, but exchange: MPI sends over MPI's own connections, which "
               "nothing here protects"},
        BadJob{{"exchange=MPI", "protection=SIGN"},
               "protection: SIGN, but exchange: MPI sends over MPI's own connections, which "
               "nothing here protects"},
        BadJob{{"exchange=MPI", "tensorboard=true"},
               "tensorboard: exchange: MPI has no worker that writes events; strata export "
               "tensorboard makes them of metrics.jsonl"},
        BadJob{{"exchange=MPI", "rank_log_bytes=65536"},
               "rank_log_bytes: exchange: MPI has no worker that keeps logs: mpirun's output is "
               "its own"},
        BadJob{{"rows.buckets=8"}, "rows: models of the zoo have no tables"},
        BadJob{{"rank_log_bytes=65535"}, "rank_log_bytes: 65535 is not in 65536 to 1099511627776"},
        BadJob{{"trace.first_step=9"}, "trace.first_step: 9, but trace.steps: 0 records nothing"},
        BadJob{{"exchange=7"}, "exchange: 7 is not one of PARAMETER_SERVER, RING, MPI, NCCL, NONE"},
        BadJob{{"device=3"}, "device: 3 is not one of CPU, GPU"},
        BadJob{{"exchange=NCCL"},
               "exchange: NCCL adds up what lies on GPUs, so it needs device: GPU"},
        BadJob{{"exchange=NCCL", "device=GPU", "consistency.async={}"},
               "consistency: exchange: NCCL is sync, async needs servers"},
        BadJob{{"node_sum=2", "device=GPU"}, "node_sum: 2 is not one of AGGREGATOR, NCCL"},
        BadJob{{"node_sum=NCCL"},
               "node_sum: NCCL adds up what lies on GPUs, so it needs device: GPU"},
        BadJob{{"node_sum=NCCL", "device=GPU", "exchange=NCCL"},
               "node_sum: NCCL needs exchange: PARAMETER_SERVER or RING, not NCCL"},
        BadJob{{"model.precision=BF16"}, "model.precision: BF16 needs device: GPU"},
        BadJob{{"model.precision=7", "device=GPU"},
               "model.precision: 7 is not one of FP32, TF32, BF16"},
        BadJob{{"exchange=RING"}, "ranks: 1, but exchange: RING needs two nodes"},
        BadJob{{"exchange=RING", "ranks=2", "consistency.async={}"},
               "consistency: exchange: RING is sync, async needs servers"},
        BadJob{{"all_reduce.algorithm=RING"}, "all_reduce: belongs to exchange: RING"},
        BadJob{{"exchange=RING", "ranks=2", "order=RING"},
               "order: RING is for servers, so it needs exchange: PARAMETER_SERVER"},
        BadJob{{"order=RING", "consistency.async={}"},
               "order: RING adds the gradients of a clock, but consistency async applies each on "
               "arrival"},
        BadJob{{"placement=9"}, "placement: 9 is not one of AUTO, DEDICATED, ON_WORKERS, MIXED"},
        BadJob{{"exchange=RING", "ranks=2", "placement=MIXED"},
               "placement: belongs to exchange: PARAMETER_SERVER"},
        BadJob{{"exchange=NONE", "ranks=2"}, "ranks: 2, but exchange: NONE needs ranks: 1"},
        BadJob{{"data.batch_per_rank=65537"}, "data.batch_per_rank: 65537 is not in 1 to 65536"},
        BadJob{{"data={}"},
               "data.idx, data.synthetic, data.cifar10, data.synthetic_imagenet: one of them is "
               "required"},
        BadJob{{"data.idx={}"}, "data.idx.dir: is required"},
        BadJob{{"data.cifar10={}"}, "data.cifar10.dir: is required"},
        BadJob{{"data.synthetic_imagenet.size=15"},
               "data.synthetic_imagenet.size: 15 is not in 16 to 1024"},
        BadJob{{"data.synthetic_imagenet.classes=65537"},
               "data.synthetic_imagenet.classes: 65537 is not in 2 to 65536"},
        BadJob{{"data.synthetic_imagenet.train_samples=67108865"},
               "data.synthetic_imagenet.train_samples: 67108865 is not in 1 to 67108864"},
        BadJob{{"data.synthetic_imagenet.train_samples=63"},
               "data.synthetic_imagenet.train_samples: 63 is less than one step of all ranks "
               "(1 x 64 = 64)"},
        BadJob{{"data.synthetic.classes=1"}, "data.synthetic.classes: 1 is not in 2 to 65536"},
        BadJob{{"data.synthetic.height=60000", "data.synthetic.width=60000"},
               "data.synthetic: channels * height * width: 3600000000 is not in 1 to 16777216"},
        BadJob{{"data.limit_train=100", "ranks=2"},
               "data.limit_train: 100 is less than one step of all ranks (2 x 64 = 128)"},
        BadJob{{"ranks=65"},
               "data.synthetic.train_samples: 4096 is less than one step of all ranks "
               "(65 x 64 = 4160)"},
        BadJob{{"optimizer.momentum_sgd.momentum=1"},
               "optimizer.momentum_sgd.momentum: 1 is not a number >= 0 and < 1"},
        BadJob{{"optimizer.sgd.weight_decay=-1"},
               "optimizer.sgd.weight_decay: -1 is not a finite number >= 0"},
        BadJob{{"optimizer.adam.beta1=nan"},
               "optimizer.adam.beta1: nan is not a number >= 0 and < 1"},
        BadJob{{"optimizer.adamw.beta2=1"},
               "optimizer.adamw.beta2: 1 is not a number >= 0 and < 1"},
        BadJob{{"optimizer.adam.epsilon=0"},
               "optimizer.adam.epsilon: 0 is not a finite number > 0"},
        BadJob{{"schedule.base_lr=0"}, "schedule.base_lr: 0 is not a finite number > 0"},
        BadJob{{"schedule.base_lr=3e38", "schedule.base_batch=1", "data.batch_per_rank=2"},
               "schedule.base_batch: 1 makes base_lr 6e+38 at 2 samples a step, not a finite "
               "number > 0"},
        BadJob{{"schedule.base_lr=1e-45", "schedule.base_batch=4096"},
               "schedule.base_batch: 4096 makes base_lr 2.18953e-47 at 64 samples a step, not a "
               "finite number > 0"},
        BadJob{{"schedule.warmup_epochs=-1"},
               "schedule.warmup_epochs: -1 is not a finite number >= 0"},
        BadJob{{"schedule.step={}"}, "schedule.step.boundaries_epochs: at least one is required"},
        BadJob{{"schedule.step={boundaries_epochs: 2 boundaries_epochs: 2}"},
               "schedule.step.boundaries_epochs: 2 is not a finite number > 2: they must ascend"},
        BadJob{{"schedule.step={boundaries_epochs: 2 gamma: 0}"},
               "schedule.step.gamma: 0 is not a finite number > 0"},
        BadJob{{"schedule.cosine={}", "max_steps=5"},
               "epochs: 0, but schedule.cosine needs their number"},
        BadJob{{"schedule.cosine={}", "schedule.warmup_epochs=1"},
               "schedule.warmup_epochs: 1 leaves none of 1 epochs to schedule.cosine"},
        BadJob{{"schedule.cosine.final_lr=-1"},
               "schedule.cosine.final_lr: -1 is not a finite number >= 0"},
        BadJob{{"consistency.lazy.staleness=1025"},
               "consistency.lazy.staleness: 1025 is not in 0 to 1024"},
        BadJob{{"consistency.lazy.apply=5"},
               "consistency.lazy.apply: 5 is not one of PER_CLOCK, ON_ARRIVAL"},
        BadJob{{"consistency.async.damping=5"},
               "consistency.async.damping: 5 is not one of NONE, INVERSE_STALENESS"},
        BadJob{{"optimizer.clip_norm=-1"}, "optimizer.clip_norm: -1 is not a finite number >= 0"},
        BadJob{{"optimizer.clip_norm=1", "exchange=NONE"},
               "optimizer.clip_norm: needs exchange: PARAMETER_SERVER or RING"},
        BadJob{{"optimizer.clip_norm=1", "pull.codec=FP16"},
               "pull.codec: with optimizer.clip_norm nodes get gradients back, which are FP32"},
        BadJob{{"optimizer.clip_norm=1", "push.codec=TOP_K"},
               "push.codec: TOP_K, but optimizer.clip_norm needs norms of whole gradients"},
        BadJob{{"optimizer.clip_norm=1", "push.codec=ONE_BIT", "consistency.preset=delay1"},
               "push.codec: ONE_BIT, but optimizer.clip_norm needs norms of whole gradients"},
        BadJob{{"optimizer.sgd={}", "optimizer.clip_norm=1", "push.codec=DGC"},
               "push.codec: DGC, but optimizer.clip_norm needs norms of whole gradients"},
        BadJob{{"optimizer.lars={}", "push.codec=TOP_K"},
               "push.codec: TOP_K, but optimizer.lars needs norms of whole gradients"},
        BadJob{{"optimizer.lars={}", "push.codec=ONE_BIT"},
               "push.codec: ONE_BIT, but optimizer.lars needs norms of whole gradients"},
        BadJob{{"optimizer.lars={coefficient: 0}"},
               "optimizer.lars.coefficient: 0 is not a finite number > 0"},
        BadJob{{"optimizer.lars={}", "consistency.async={}"},
               "optimizer.lars: needs sync or double buffering, not async"},
        BadJob{{"optimizer.lars={}", "consistency.lazy={quorum {nodes: 1}}"},
               "optimizer.lars: needs sync or double buffering, not lazy(0, quorum 1)"},
        BadJob{{"optimizer.lars={}", "consistency.lazy.staleness=1"},
               "optimizer.lars: needs sync or double buffering, not lazy(1)"},
        BadJob{{"optimizer.lars={}", "consistency.lazy={staleness: 1 apply: ON_ARRIVAL}"},
               "optimizer.lars: needs sync or double buffering, not lazy(1, on arrival)"},
        BadJob{{"optimizer.adagrad={epsilon: 0}"},
               "optimizer.adagrad.epsilon: 0 is not a finite number > 0"},
        BadJob{{"optimizer.adagrad={initial_accumulator: -1}"},
               "optimizer.adagrad.initial_accumulator: -1 is not a finite number >= 0"},
        BadJob{{"optimizer.ftrl={l1: -1}"}, "optimizer.ftrl.l1: -1 is not a finite number >= 0"},
        BadJob{{"optimizer.ftrl={l2: inf}"}, "optimizer.ftrl.l2: inf is not a finite number >= 0"},
        BadJob{{"optimizer.ftrl={beta: 0}"}, "optimizer.ftrl.beta: 0 is not a finite number > 0"},
        BadJob{{"optimizer.rmsprop_warmup={width_epochs: 0}"},
               "optimizer.rmsprop_warmup.width_epochs: 0 is not a finite number > 0"},
        BadJob{{"optimizer.rmsprop_warmup={decay: 1}"},
               "optimizer.rmsprop_warmup.decay: 1 is not a number >= 0 and < 1"},
        BadJob{{"optimizer.rmsprop_warmup={}", "schedule.warmup_epochs=1"},
               "schedule.warmup_epochs: optimizer.rmsprop_warmup has its own warm-up"},
        BadJob{{"optimizer.rmsprop_warmup={}", "schedule.cosine={}", "epochs=12"},
               "optimizer.rmsprop_warmup: ends after epoch 12.5, but schedule.cosine is at 0 after "
               "12"},
        BadJob{{"model.batch_norm=LAST_BATCH", "consistency.lazy.local_steps=4"},
               "model.batch_norm: LAST_BATCH does not go with lazy(0, 4 local steps, outer 1)"},
        BadJob{{"model.batch_norm=LAST_BATCH", "push.codec=INT8"},
               "push.codec: model.batch_norm: LAST_BATCH needs FP32, FP16 or BF16"},
        BadJob{{"debug.delays={node: 4}", "ranks=4"}, "debug.delays.node: 4 is not in 0 to 3"},
        BadJob{{"debug.delays={node: 1 slow: 2}", "debug.delays={node: 1 slow: 3}", "ranks=2"},
               "debug.delays: node 1 stands there twice"},
        BadJob{{"debug.delays={delay_ms: 60001}"},
               "debug.delays.delay_ms: 60001 is not in 0 to 60000"},
        BadJob{{"debug.delays={delay_ms: 5 jitter_ms: 6}"},
               "debug.delays.jitter_ms: 6 is not in 0 to 5"},
        BadJob{{"debug.delays={slow: 1000}"},
               "debug.delays.slow: 1000 is not a number >= 0 and < 1000"},
        BadJob{{"debug.nan_rank=1"}, "debug.nan_rank: 1 is not in 0 to 0"}));

proto::Job With(const std::vector<std::string>& settings) {
  proto::Job job =
      *ParseJob("name: 'a' ranks: 4 model { zoo: 'mlp' } data { synthetic {} }", "job");
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  FillDefaults(&job);
  return job;
}

constexpr char kDir[] = "checkpoint.dir=/c";
constexpr char kEvery[] = "checkpoint.every_steps=10";

TEST(Checkpoint, KeepsTwoAndCountsRestartsInAnHourWhereNothingIsSaid) {
  const proto::Job job = With({kDir, kEvery, "restart.attempts=3"});
  EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
  EXPECT_EQ(job.checkpoint().keep(), 2);
  EXPECT_EQ(job.restart().within_hours(), 1);
  EXPECT_FALSE(With({}).has_checkpoint());
}

class GoesWith : public testing::TestWithParam<std::string> {};
TEST_P(GoesWith, Mode) {
  const proto::Job job =
      With({kDir, kEvery, absl::StrCat("consistency.preset=\"", GetParam(), "\"")});
  EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
}

TEST(CheckCheckpoint, GoesWithExchangesThatHaveNoServers) {
  for (const std::string exchange : {"NONE", "MPI", "NCCL"}) {
    std::vector<std::string> settings = {kDir, kEvery, absl::StrCat("exchange=", exchange)};
    if (exchange == "NONE") settings.push_back("ranks=1");
    if (exchange == "NCCL") settings.push_back("device=GPU");
    EXPECT_TRUE(ValidateJob(With(settings)).ok()) << exchange << ValidateJob(With(settings));
  }
}
INSTANTIATE_TEST_SUITE_P(Modes, GoesWith,
                         testing::Values("sync", "ssp(3)", "quorum(2)", "local(4)", "diloco(8)",
                                         "significance", "easgd", "delay1", "async", "async_damped",
                                         "async_dc"));

struct Bad {
  std::vector<std::string> settings;
  std::string error;
};
class RefusedCheckpoint : public testing::TestWithParam<Bad> {};
TEST_P(RefusedCheckpoint, NamesTheField) {
  const absl::Status status = ValidateJob(With(GetParam().settings));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(GetParam().error));
}
INSTANTIATE_TEST_SUITE_P(
    Jobs, RefusedCheckpoint,
    testing::Values(
        Bad{{kEvery}, "checkpoint.dir: is required"},
        Bad{{"checkpoint.dir=c", kEvery}, "checkpoint.dir: \"c\" is neither an absolute path"},
        Bad{{kDir}, "checkpoint.every_steps: 0 is not in 1 to"},
        Bad{{kDir, kEvery, "checkpoint.keep=1001"}, "checkpoint.keep: 1001 is not in 1 to 1000"},
        Bad{{kDir, kEvery, "restart={}"}, "restart.attempts: 0 is not in 1 to 1000"},
        Bad{{kDir, kEvery, "restart.attempts=1", "restart.within_hours=0"},
            "restart.within_hours: 0 is not a finite number > 0"},
        Bad{{"restart.attempts=1"}, "restart: needs checkpoint"},
        Bad{{kDir, kEvery, "exchange=MPI", "restart.attempts=1"},
            "restart: a job with exchange: MPI is started by mpirun"},
        Bad{{kDir, kEvery, "consistency.preset=\"delay1\"", "pull.codec=INT8"},
            "checkpoint: consistency: double buffering goes with pull.codec: FP32 only, not "
            "INT8"}));

constexpr char kReplace[] = "replace.per_hour=3";

TEST(CheckReplace, ANodeMayWaitForFiveMinutesWhereNothingIsSaid) {
  const proto::Job job = With({kReplace});
  EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
  EXPECT_EQ(job.replace().patience_s(), 300);
  EXPECT_EQ(With({kReplace, "replace.patience_s=7"}).replace().patience_s(), 7);
  EXPECT_FALSE(With({}).has_replace());
}

TEST(CheckReplace, ANodeHangsAfterAMinuteWhereNothingIsSaidAndNeverWhereZeroIs) {
  EXPECT_EQ(With({kReplace}).replace().hang_after_s(), 60);
  for (const int seconds : {0, 3, 604800}) {
    const proto::Job job = With({kReplace, absl::StrCat("replace.hang_after_s=", seconds)});
    EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
    EXPECT_EQ(job.replace().hang_after_s(), seconds);
  }
}

TEST(CheckReplace, GoesWithModesThatKeepAllWeightsOnServersOrHaveThemThereAfterEachRound) {
  for (const std::string preset : {"sync", "ssp(3)", "quorum(2)", "async", "async_damped",
                                   "async_dc", "local(4)", "diloco(4)"}) {
    const proto::Job job = With({kReplace, absl::StrCat("consistency.preset=\"", preset, "\"")});
    EXPECT_TRUE(ValidateJob(job).ok()) << preset << ValidateJob(job);
  }
}

TEST(CheckReplace, GoesWithCodecsCheckpointsAndSecondCopies) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"push.codec=TOP_K", "pull.codec=FP16"},
        {"push.codec=INT8", "checkpoint.dir=/c", "checkpoint.every_steps=10"},
        {"replicas=1", "while_unprotected=WAIT"},
        {"optimizer.clip_norm=1", "consistency.preset=\"async\""}}) {
    std::vector<std::string> settings = more;
    settings.push_back(kReplace);
    EXPECT_TRUE(ValidateJob(With(settings)).ok()) << more[0] << ValidateJob(With(settings));
  }
}

// Backups store the nodes' given weights once more, which the memory formula includes.
TEST(CheckReplicas, GoWithEveryModeAlsoThoseThatKeepWeightsPerNode) {
  for (const std::string preset :
       {"sync", "ssp(3)", "quorum(2)", "local(4)", "diloco(8)", "significance", "easgd", "delay1",
        "async", "async_damped", "async_dc"}) {
    const proto::Job job =
        With({"replicas=1", absl::StrCat("consistency.preset=\"", preset, "\"")});
    EXPECT_TRUE(ValidateJob(job).ok()) << preset << ValidateJob(job);
  }
  const proto::Job adaptive =
      With({"replicas=1", "consistency.async.delay_compensation.adaptive=true"});
  EXPECT_TRUE(ValidateJob(adaptive).ok()) << ValidateJob(adaptive);
}

class RefusedReplace : public testing::TestWithParam<Bad> {};
TEST_P(RefusedReplace, NamesTheField) {
  const absl::Status status = ValidateJob(With(GetParam().settings));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(GetParam().error));
}
INSTANTIATE_TEST_SUITE_P(
    All, RefusedReplace,
    testing::Values(
        Bad{{"replace.patience_s=5"}, "replace.per_hour: is required"},
        Bad{{"replace.per_hour=100001"}, "replace.per_hour: 100001 is not in 1 to 100000"},
        Bad{{kReplace, "replace.patience_s=604801"}, "replace.patience_s: 604801 is not in 1 to"},
        Bad{{kReplace, "replace.hang_after_s=2"}, "replace.hang_after_s: 2 is neither 0 nor in 3"},
        Bad{{kReplace, "replace.hang_after_s=604801"}, "replace.hang_after_s: 604801 is neither"},
        Bad{{kReplace, "exchange=RING"}, "replace: belongs to exchange: PARAMETER_SERVER"},
        Bad{{kReplace, "exchange=NONE", "ranks=1"}, "replace: belongs to exchange"},
        Bad{{kReplace, "consistency.preset=\"delay1\""}, "replace: consistency: double buffering"},
        Bad{{kReplace, "consistency={lazy: {local_steps: 4 staleness: 1}}"},
            "replace: consistency: lazy(1, 4 local steps, outer 1) keeps weights on the nodes"},
        Bad{{kReplace, "consistency={lazy: {local_steps: 4 apply: ON_ARRIVAL}}"},
            "replace: consistency: lazy(0, on arrival, 4 local"},
        Bad{{kReplace, "consistency={lazy: {local_steps: 4 quorum: {nodes: 2}}}"},
            "replace: consistency: lazy(0, 4 local"},
        Bad{{kReplace, "consistency.preset=\"significance\""}, "replace: consistency: lazy(0, "},
        Bad{{kReplace, "consistency.preset=\"easgd\""}, "replace: consistency: async(elastic"},
        Bad{{kReplace, "optimizer.lars={}"}, "replace: optimizer.lars"},
        Bad{{kReplace, "optimizer.clip_norm=1"}, "replace: optimizer.clip_norm"},
        Bad{{"while_unprotected=WAIT"}, "while_unprotected: WAIT needs replicas: 1"},
        Bad{{"replicas=1", "exchange=RING"}, "replicas: belongs to exchange: PARAMETER_SERVER"}));

// It is known only once the program has started.
TEST(CheckReplace, HoldsForTheOptimizerThatAProgramNames) {
  for (const auto& [named, refused] :
       {std::pair("lars {}", true), std::pair("mean {}", true), std::pair("adam {}", false)}) {
    proto::Job job = *ParseJob(
        "name: 'a' ranks: 4 program { path: '/p' samples_per_rank: 4 } optimizer { from_program {} "
        "} "
        "replace { per_hour: 1 }",
        "job");
    FillDefaults(&job);
    ASSERT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
    const proto::Optimizer optimizer = *ParseOptimizer(named);
    const absl::Status taken = TakeProgramOptimizer(&optimizer, false, &job);
    EXPECT_EQ(taken.ok(), !refused) << named << taken;
    if (!refused) continue;
    EXPECT_THAT(std::string(taken.message()), testing::StartsWith("replace: optim"));
  }
}

TEST(CheckReplace, RanksThatMakeLocalStepsThemselvesAreRefused) {
  proto::Job job = *ParseJob(
      "name: 'a' ranks: 4 program { path: '/p' } optimizer { mean {} } replace { per_hour: 1 } "
      "consistency { preset: 'local(4)' }",
      "job");
  FillDefaults(&job);
  EXPECT_THAT(std::string(ValidateJob(job).message()),
              testing::StartsWith("replace: consistency: lazy(0, 4 local"));
}

proto::Job Elastic(const std::vector<std::string>& settings) {
  proto::Job job = *ParseJob(
      "name: 'a' ranks: 4 ranks_per_node: 1 program { path: '/p' samples_per_rank: 4 }", "job");
  EXPECT_TRUE(ApplySettings(settings, &job).ok());
  FillDefaults(&job);
  return job;
}

TEST(CheckElastic, AJobHasAsManyRanksAtLeastAndAtMostWhereNothingIsSaid) {
  const proto::Job grows = Elastic({"ranks_max=8"}), shrinks = Elastic({"ranks_min=2"});
  EXPECT_TRUE(ValidateJob(grows).ok()) << ValidateJob(grows);
  EXPECT_TRUE(ValidateJob(shrinks).ok()) << ValidateJob(shrinks);
  EXPECT_EQ(grows.ranks_min(), 4u);
  EXPECT_EQ(shrinks.ranks_max(), 4u);
  EXPECT_TRUE(IsElastic(grows) && IsElastic(shrinks));
  EXPECT_FALSE(IsElastic(Elastic({})));
}

TEST(CheckElastic, NodesThatMayComeMayBeDelayed) {
  EXPECT_TRUE(ValidateJob(Elastic({"ranks_max=8", "debug.delays={node: 7 delay_ms: 1}"})).ok());
  EXPECT_EQ(ValidateJob(Elastic({"ranks_max=8", "debug.delays={node: 8 delay_ms: 1}"})).message(),
            "debug.delays.node: 8 is not in 0 to 7");
}

TEST(CheckElastic, GoesWithModesThatKeepAllWeightsOnServers) {
  for (const std::string preset :
       {"sync", "ssp(3)", "quorum(2)", "async", "async_damped", "async_dc"}) {
    const proto::Job job = Elastic({"ranks_min=2", "ranks_max=6", "ranks_per_node=2",
                                    absl::StrCat("consistency.preset=\"", preset, "\"")});
    EXPECT_TRUE(ValidateJob(job).ok()) << preset << ValidateJob(job);
  }
}

class RefusedElastic : public testing::TestWithParam<Bad> {};
TEST_P(RefusedElastic, NamesTheField) {
  const absl::Status status = ValidateJob(Elastic(GetParam().settings));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(GetParam().error));
}
constexpr char kMost[] = "ranks_max=8";
INSTANTIATE_TEST_SUITE_P(
    All, RefusedElastic,
    testing::Values(
        Bad{{"ranks_min=5"}, "ranks_min: 5 is above ranks: 4"},
        Bad{{"ranks_max=3"}, "ranks_max: 3 is below ranks: 4"},
        Bad{{"ranks_max=1025"}, "ranks_max: 1025 is not in 1 to 1024"},
        Bad{{"ranks_max=7", "ranks_per_node=2"},
            "ranks_max: 7 is not a multiple of ranks_per_node: 2"},
        Bad{{"ranks_min=1", "ranks_per_node=2"}, "ranks_min: 1 is not a multiple of"},
        Bad{{kMost, "ranks=3", "ranks_per_node=2"}, "ranks: 3 is not a multiple of"},
        Bad{{kMost, "ranks_per_node=0"}, "ranks_per_node: is required where nodes may join and "},
        Bad{{kMost, "exchange=RING"}, "ranks_max: belongs to exchange: PARAMETER_SERVER"},
        Bad{{"ranks_min=1", "exchange=RING"}, "ranks_min: belongs to exchange: PARAMETER_SERVER"},
        Bad{{kMost, "exchange=NCCL", "device=GPU"}, "ranks_max: belongs to exchange"},
        Bad{{"ranks_max=2", "exchange=NONE", "ranks=1"}, "ranks_max: belongs to exchange"},
        Bad{{kMost, "consistency.preset=\"delay1\""}, "ranks_max: consistency: double buffering"},
        Bad{{kMost, "consistency.preset=\"local(4)\""}, "ranks_max: consistency: lazy(0, 4 loc"},
        Bad{{kMost, "consistency.preset=\"diloco(4)\""}, "ranks_max: consistency: lazy(0, 4 lo"},
        Bad{{kMost, "consistency.preset=\"easgd\""}, "ranks_max: consistency: async(elastic"},
        Bad{{kMost, "optimizer.lars={}"},
            "ranks_max: optimizer.lars has the nodes keep weights "
            "and optimizer state, which a node that joins does not"},
        Bad{{"ranks_min=2", "optimizer.clip_norm=1"}, "ranks_min: optimizer.clip_norm"}));

TEST(CheckOnLoss, ARingThatDropsNodesHasThoseOfOneAtLeastAndTakesNoMore) {
  const proto::Job job = Elastic({"exchange=RING", "on_loss=DROP", "ranks_per_node=2"});
  EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
  EXPECT_EQ(job.ranks_min(), 2u);
  EXPECT_EQ(job.ranks_max(), 4u);
  EXPECT_TRUE(IsElastic(job) && DropsLost(job) && AppliesOnNodes(job));
  EXPECT_FALSE(DropsLost(Elastic({"exchange=RING"})));
}

TEST(CheckOnLoss, RanksThatAddUpOnTheirGpusGoOnWithoutNodesAsWell) {
  const proto::Job job =
      Elastic({"exchange=NCCL", "device=GPU", "on_loss=DROP", "optimizer.adam={}"});
  EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
  EXPECT_EQ(job.ranks_min(), 1u);
  EXPECT_TRUE(DropsLost(job));
  EXPECT_FALSE(AppliesOnNodes(job)) << "ranks do";
}

TEST(CheckOnLoss, GoesWithEveryOptimizerAndModelsThatKeepStatistics) {
  for (const std::string optimizer :
       {"optimizer.adam={}", "optimizer.lars={}", "optimizer.clip_norm=1", "optimizer.mean={}"}) {
    const proto::Job job = Elastic({"exchange=RING", "on_loss=DROP", optimizer, "ranks_min=2"});
    EXPECT_TRUE(ValidateJob(job).ok()) << optimizer << ValidateJob(job);
  }
  EXPECT_TRUE(ValidateJob(With({"ranks_per_node=1", "exchange=RING", "on_loss=DROP",
                                "model={zoo: 'cnn' batch_norm: RUNNING}"}))
                  .ok());
}

class RefusedDrop : public testing::TestWithParam<Bad> {};
TEST_P(RefusedDrop, NamesTheField) {
  std::vector<std::string> settings = {"exchange=RING", "on_loss=DROP"};
  for (const std::string& more : GetParam().settings) settings.push_back(more);
  const absl::Status status = ValidateJob(Elastic(settings));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(GetParam().error));
}
INSTANTIATE_TEST_SUITE_P(
    All, RefusedDrop,
    testing::Values(
        Bad{{"exchange=PARAMETER_SERVER"},
            "on_loss: DROP belongs to exchange: RING or NCCL: servers"},
        Bad{{"exchange=NCCL", "device=GPU", "checkpoint.dir=/c", "checkpoint.every_steps=10"},
            "on_loss: DROP goes without checkpoint"},
        Bad{{"ranks_per_node=0"}, "ranks_per_node: is required with on_loss: DROP"},
        Bad{{"ranks_max=8"}, "ranks_max: 8 is above ranks: 4: no node joins a ring"},
        Bad{{"ranks_min=8"}, "ranks_min: 8 is above ranks: 4"},
        Bad{{"ranks_min=3", "ranks_per_node=2"}, "ranks_min: 3 is not a multiple of"},
        Bad{{"consistency.preset=\"delay1\""}, "on_loss: DROP needs consistency: sync, not "},
        Bad{{"consistency.preset=\"local(4)\""}, "on_loss: DROP needs consistency: sync, not "},
        Bad{{"push.codec=BF16"}, "on_loss: DROP goes with push.codec: FP32 only"},
        Bad{{"checkpoint.dir=/c", "checkpoint.every_steps=10"}, "on_loss: DROP goes without"}));

proto::Job ElasticModel(std::vector<std::string> settings) {
  settings.push_back("ranks_per_node=1");
  return With(settings);
}

TEST(CheckElastic, GoesWithModelsOfTheZooWhoseRanksKeepNothing) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"ranks_max=8"},
        {"ranks_min=1", "model.zoo=\"vgg16\"", "data.cifar10.dir=\"/d\""},
        {"ranks_max=8", "model={zoo: 'cnn' batch_norm: LAST_BATCH}",
         "consistency.preset=\"async\""},
        {"ranks_max=8", "replace.per_hour=1", "replicas=1", "checkpoint.dir=/c",
         "checkpoint.every_steps=10"}}) {
    const absl::Status valid = ValidateJob(ElasticModel(more));
    EXPECT_TRUE(valid.ok()) << valid;
  }
}

class RefusedElasticModel : public testing::TestWithParam<Bad> {};
TEST_P(RefusedElasticModel, NamesTheField) {
  const absl::Status status = ValidateJob(ElasticModel(GetParam().settings));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(GetParam().error));
}
INSTANTIATE_TEST_SUITE_P(
    All, RefusedElasticModel,
    testing::Values(
        Bad{{kMost, "model.zoo=\"resnet8\""},
            "ranks_max: model.batch_norm: RUNNING has each rank of resnet8 keep statistics"},
        Bad{{"ranks_min=2", "model.zoo=\"cnn\""}, "ranks_min: model.batch_norm: RUNNING"},
        Bad{{kMost, "evaluation.deferred=true"}, "ranks_max: evaluation.deferred has a rank keep"},
        Bad{{kMost, "data.synthetic.train_samples=511"},
            "data.synthetic.train_samples: 511 is less than one step of all ranks (8 x 64 = "
            "512)"}));

TEST(CheckReplace, AnUnknownWayToGoOnUnprotectedIsRefused) {
  proto::Job job = With({"replicas=1"});
  job.set_while_unprotected(static_cast<proto::Job::Unprotected>(9));
  EXPECT_EQ(std::string(ValidateJob(job).message()),
            "while_unprotected: 9 is not one of GO_ON, WAIT");
}

}  // namespace
}  // namespace strata

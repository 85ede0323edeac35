#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

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

// Second copies take what nodes were given once more, which the memory formula says.
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

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

proto::Job With(const std::vector<std::string>& settings) {
  proto::Job job =
      *ParseJob("name: 'a' ranks: 4 model { zoo: 'mlp' } data { synthetic {} }", "job");
  const absl::Status applied = ApplySettings(settings, &job);
  EXPECT_TRUE(applied.ok()) << applied;
  FillDefaults(&job);
  return job;
}

constexpr char kReplace[] = "replace.per_hour=3";

TEST(CheckReplace, ANodeMayWaitForFiveMinutesWhereNothingIsSaid) {
  const proto::Job job = With({kReplace});
  EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
  EXPECT_EQ(job.replace().patience_s(), 300);
  EXPECT_EQ(With({kReplace, "replace.patience_s=7"}).replace().patience_s(), 7);
  EXPECT_FALSE(With({}).has_replace());
}

TEST(CheckReplace, GoesWithModesThatKeepAllWeightsOnServers) {
  for (const std::string preset :
       {"sync", "ssp(3)", "quorum(2)", "async", "async_damped", "async_dc"}) {
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

struct Bad {
  std::vector<std::string> settings;
  std::string error;
};
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
        Bad{{kReplace, "exchange=RING"}, "replace: belongs to exchange: PARAMETER_SERVER"},
        Bad{{kReplace, "exchange=NONE", "ranks=1"}, "replace: belongs to exchange"},
        Bad{{kReplace, "consistency.preset=\"delay1\""}, "replace: consistency: double buffering"},
        Bad{{kReplace, "consistency.preset=\"local(4)\""}, "replace: consistency: lazy(0, 4 local"},
        Bad{{kReplace, "consistency.preset=\"diloco(4)\""}, "replace: consistency: lazy(0, 4 loc"},
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

TEST(CheckReplace, AnUnknownWayToGoOnUnprotectedIsRefused) {
  proto::Job job = With({"replicas=1"});
  job.set_while_unprotected(static_cast<proto::Job::Unprotected>(9));
  EXPECT_EQ(std::string(ValidateJob(job).message()),
            "while_unprotected: 9 is not one of GO_ON, WAIT");
}

}  // namespace
}  // namespace strata

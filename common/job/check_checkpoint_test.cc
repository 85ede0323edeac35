#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
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

}  // namespace
}  // namespace strata

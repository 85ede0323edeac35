#include "cli/options/compared_job.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ComparedJobTest : public testing::Test {
 protected:
  // Returns the path of a file with that text.
  static std::string Write(const std::string& name, const std::string& text) {
    std::string path =
        std::filesystem::path(testing::TempDir() + "/" + name).lexically_normal().string();
    std::ofstream(path) << text;
    return path;
  }

  ComparedJob options_;
};

TEST_F(ComparedJobTest, AScriptAndAnExecutableAreProgramsWhoseArgumentsFollow) {
  options_.job.path = Write("train.py", "");
  options_.args = {"--lr", "0.1"};
  options_.program.ranks = 4;
  options_.program.nodes = 2;
  absl::StatusOr<proto::Job> job = LoadComparedJob(options_);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->program().args(), ElementsAre(options_.job.path, "--lr", "0.1"));
  EXPECT_EQ(job->ranks(), 4u);
  EXPECT_EQ(job->ranks_per_node(), 2u);
  options_.job.path = Write("train", "");
  std::filesystem::permissions(options_.job.path, std::filesystem::perms::owner_all);
  options_.job.stragglers = {"node=1,slow=4x"};
  job = LoadComparedJob(options_);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->program().path(), options_.job.path);
  EXPECT_EQ(job->debug().delays(0).slow(), 4);
}

TEST_F(ComparedJobTest, OtherFilesAreJobsWhichSayTheirRanks) {
  options_.job.path = Write("job.textproto", "name: 'j' program { path: '/bin/true' } ranks: 2");
  const absl::StatusOr<proto::Job> job = LoadComparedJob(options_);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->ranks(), 2u);
  options_.program.ranks = 3;
  EXPECT_THAT(std::string(LoadComparedJob(options_).status().message()),
              HasSubstr("job.textproto: a job file, which has no -n"));
}

TEST_F(ComparedJobTest, TheMetricHasItsGoal) {
  options_.metric = "perplexity";
  options_.goal = "min";
  EXPECT_TRUE(MetricOf(options_)->less_is_better);
}

}  // namespace
}  // namespace strata::cli

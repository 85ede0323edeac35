#include "cli/options/program_job.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

class ProgramJob : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::current_path(testing::TempDir());
    for (const char* name : {"train.py", "train", "my model (2).py"}) std::ofstream(name) << "x";
    std::filesystem::permissions("train", std::filesystem::perms::owner_all);
  }
  static std::string In(const std::string& name) {
    return (std::filesystem::current_path() / name).string();
  }
};

TEST_F(ProgramJob, AScriptIsRunByTheInterpreterAndKeepsItsArguments) {
  const auto job = MakeProgramJob({.words = {"train.py", "--lr", "0.1"}, .ranks = 4, .nodes = 3});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->name(), "train");
  EXPECT_EQ(job->program().path(), "python3");
  EXPECT_THAT(job->program().args(), ElementsAre(In("train.py"), "--lr", "0.1"));
  EXPECT_THAT(job->program().env(), Contains("STRATA_LAUNCH={launch}"));
  EXPECT_THAT(job->program().env(), Contains("PYTHONUNBUFFERED=1"));
  EXPECT_THAT(job->program().env(), Contains("STRATA_SEED={seed}"));
  EXPECT_EQ(job->ranks(), 4u);
  EXPECT_EQ(job->ranks_per_node(), 2u);
}

TEST_F(ProgramJob, WhatAnInterpreterRunsNamesItsOptimizerAndTheJob) {
  using Words = std::vector<std::string>;
  for (const auto& [words, name] :
       {std::pair(Words{"python3", "-m", "pkg.train", "-x"}, "pkg.train"),
        {{"python3.11", "-X", "dev", "-u", "train.py"}, "train"},
        {{"python", "-c", "pass"}, "python"}}) {
    const auto job = MakeProgramJob({.words = words});
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(job->optimizer().has_from_program()) << words[0];
    EXPECT_THAT(job->program().env(), Contains("PYTHONUNBUFFERED=1"));
    EXPECT_EQ(job->program().path(), words[0]);
    EXPECT_EQ(job->name(), name);
  }
  EXPECT_FALSE(MakeProgramJob({.words = {"pythonic"}})->has_optimizer());
}

TEST_F(ProgramJob, WhatCannotBeRunIsRefusedByName) {
  std::ofstream("notes.txt") << "x";
  std::filesystem::create_directories("folder");
  const auto refusal = [](const std::string& program) {
    return std::string(MakeProgramJob({.words = {program}}).status().message());
  };
  EXPECT_EQ(refusal("./folder"), "./folder: is a folder, not a program");
  EXPECT_EQ(refusal("absent.py"), "absent.py: no such file");
  EXPECT_EQ(refusal("notes.txt"),
            "notes.txt: is not executable; a Python script's name ends in .py");
}

TEST_F(ProgramJob, IsAJobThatHoldsOnceItsDefaultsAreFilledIn) {
  for (const char* program : {"train.py", "train", "my model (2).py"}) {
    auto job = MakeProgramJob({.words = {program}});
    ASSERT_TRUE(job.ok()) << job.status();
    FillDefaults(&*job);
    EXPECT_EQ(ValidateJob(*job), absl::OkStatus()) << job->name();
  }
  EXPECT_EQ(MakeProgramJob({.words = {"my model (2).py"}})->name(), "my-model--2-");
}

TEST_F(ProgramJob, AScriptNamesItsOptimizerUnlessASettingDoes) {
  auto job = MakeProgramJob({.words = {"train.py"}});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->optimizer().has_from_program());
  EXPECT_FALSE(MakeProgramJob({.words = {"train"}})->has_optimizer());
  // As the command does it: the job is text first, and then changed.
  job = ParseJob(JobToText(*job), "job");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->optimizer().has_from_program());
  ASSERT_TRUE(ApplySettings({"consistency.lazy.staleness=3"}, &*job).ok());
  EXPECT_TRUE(job->optimizer().has_from_program());
  ASSERT_TRUE(ApplySettings({"optimizer.sgd={}"}, &*job).ok());
  EXPECT_TRUE(job->optimizer().has_sgd());
  FillDefaults(&*job);
  EXPECT_EQ(ValidateJob(*job), absl::OkStatus());
}

TEST_F(ProgramJob, AProgramOfThisFolderGetsItsPathAndOthersAreLookedFor) {
  EXPECT_EQ(MakeProgramJob({.words = {"train"}})->program().path(), In("train"));
  EXPECT_EQ(MakeProgramJob({.words = {"./train"}})->program().path(), In("train"));
  EXPECT_EQ(MakeProgramJob({.words = {"--node", "2", "train.py"}}).status().message(),
            "unknown option --node");
  EXPECT_THAT(MakeProgramJob({.words = {"train"}})->program().env(),
              Not(Contains("PYTHONUNBUFFERED=1")));
  EXPECT_EQ(MakeProgramJob({.words = {"true"}})->program().path(), "true");
  EXPECT_EQ(MakeProgramJob({.words = {"train.py"}, .python = "venv/bin/python"})->program().path(),
            In("venv/bin/python"));
}

TEST_F(ProgramJob, AFileThatIsNotThereIsNamed) {
  EXPECT_EQ(MakeProgramJob({}).status(), absl::InvalidArgumentError("PROGRAM is missing"));
  EXPECT_EQ(MakeProgramJob({.words = {"gone.py"}}).status(),
            absl::NotFoundError("gone.py: no such file"));
  EXPECT_EQ(MakeProgramJob({.words = {"./gone"}}).status(),
            absl::NotFoundError("./gone: no such file"));
}

TEST_F(ProgramJob, OnOneNodeNeedsNoServersWhereItsModeIsARings) {
  for (const char* mode : {"", "consistency { preset: \"delay1\" }"}) {
    auto job = ParseJob(JobToText(*MakeProgramJob({.words = {"train.py"}, .ranks = 2})) + mode, "");
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_TRUE(LeaveOutServers(&*job)) << mode;
    EXPECT_EQ(job->exchange(), proto::Job::RING);
  }
  for (const char* more : {"consistency { async {} }", "consistency { lazy { staleness: 2 } }",
                           "exchange: NONE", "pull { codec: FP16 }", "order: RING"}) {
    auto job = ParseJob(JobToText(*MakeProgramJob({.words = {"train.py"}, .ranks = 2})) + more, "");
    ASSERT_TRUE(job.ok()) << job.status();
    const std::string before = job->SerializeAsString();
    EXPECT_FALSE(LeaveOutServers(&*job)) << more;
    EXPECT_EQ(job->SerializeAsString(), before) << more;
  }
}

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
  proto::Job program, zoo;
  program.mutable_program()->set_path("/bin/true");
  zoo.mutable_model()->set_zoo("mlp");
  EXPECT_TRUE(MetricOf(options_, program)->less_is_better);
  EXPECT_EQ(MetricOf(options_, zoo).status(),
            absl::InvalidArgumentError("--metric perplexity: a model of the zoo reports "
                                       "test_accuracy and test_loss alone"));
  options_.metric = "test_accuracy";
  EXPECT_EQ(MetricOf(options_, zoo).status(),
            absl::InvalidArgumentError("--goal min: test_accuracy is to be large"));
}

}  // namespace

}  // namespace strata::cli

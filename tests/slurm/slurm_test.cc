// deploy/slurm/strata.sbatch as Slurm runs it.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/slurm/slurm_cluster.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Slurm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    slurm_ = std::make_unique<SlurmCluster>();
    started_ = slurm_->Start();
  }
  static void TearDownTestSuite() { slurm_.reset(); }

  void SetUp() override { ASSERT_EQ(started_, absl::OkStatus()); }

  void TearDown() override {
    if (!job_.empty()) slurm_->Run({"scancel", "--quiet", job_}).IgnoreError();
    if (!job_.empty()) slurm_->WaitForEnd(job_);
    EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(30)));
    EXPECT_THAT(Processes(), IsEmpty()) << "of the daemons";
  }

  void Submit(const proto::Job& job, const std::vector<std::string>& more = {},
              const std::string& environment = "") {
    std::vector<std::string> command = {
        "sbatch",
        "--parsable",
        "--chdir=" + TestDir(),
        "--output=" + TestDir() + "/log",
        absl::StrCat("--export=ALL,STRATA=", StrataBinary(), ",STRATA_RUNS=", TestDir(),
                     "/runs,STRATA_SLOTS=2", environment),
        std::filesystem::absolute("deploy/slurm/strata.sbatch"),
        WriteJob(TestDir(), job)};
    command.insert(command.end(), more.begin(), more.end());
    const auto id = slurm_->Run(command);
    ASSERT_TRUE(id.ok()) << id.status();
    job_ = std::string(absl::StripSuffix(*id, "\n"));
  }

  std::string Log() const {
    std::ifstream in(TestDir() + "/log");
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  // Where the keys of the run are while it goes on.
  std::string KeysFolder() const { return absl::StrCat(TestDir(), "/runs/keys-", job_); }

  // Submits a job that would run for hours and waits until it trains.
  void SubmitLongJob() {
    proto::Job job = LenetJob("long", 4, 2, 10'000'000);
    job.mutable_debug()->clear_hash_weights();
    Submit(job);
    const std::string metrics = TestDir() + "/runs/long-1/metrics.jsonl";
    ASSERT_TRUE(WaitUntil([&] { return std::filesystem::exists(metrics); })) << Log();
    ASSERT_EQ(ListProcesses("rank").size(), 4u);
    traces_ = Traces();
    struct stat folder = {}, file = {};
    ASSERT_EQ(stat(KeysFolder().c_str(), &folder), 0) << KeysFolder();
    EXPECT_EQ(folder.st_mode & 07777, 0700u);
    ASSERT_EQ(stat((KeysFolder() + "/worker-n1.pem").c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, 0600u);
  }

  static std::unique_ptr<SlurmCluster> slurm_;
  static absl::Status started_;
  std::string job_;
  std::vector<std::string> traces_;
};

std::unique_ptr<SlurmCluster> Slurm::slurm_;
absl::Status Slurm::started_;

TEST_F(Slurm, RunsAJobWithAWorkerOnEachNode) {
  Submit(LenetJob("job", 4, 2, 20), {"--set", "metrics.every_steps=5"}, ",STRATA_SERVERS=2");
  EXPECT_EQ(slurm_->WaitForEnd(job_), "COMPLETED") << Log();
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "0:0");
  for (const char* part :
       {"strata slurm ready coordinator=127.0.0.1:", " servers=2 workers=2 slots=4 ",
        "4 ranks on n1, n2\n", "step 20/20", "finished after "}) {
    EXPECT_THAT(Log(), HasSubstr(part));
  }
  EXPECT_THAT(Log(), testing::Not(HasSubstr("warning")));
  EXPECT_EQ(Metrics(TestDir() + "/runs/job-1").size(), 4u);
  EXPECT_FALSE(std::filesystem::exists(KeysFolder()));
}

TEST_F(Slurm, TheExitStatusIsTheJobs) {
  proto::Job job = LenetJob("job", 2, 1, 20);
  job.mutable_data()->clear_synthetic();
  job.mutable_data()->mutable_idx()->set_dir("/nowhere");
  Submit(job);
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "1:0");
  EXPECT_THAT(Log(), HasSubstr("/nowhere"));
}

TEST_F(Slurm, AJobThatCannotRunThereEndsAtOnceWithTheReason) {
  Submit(LenetJob("job", 5, 0, 20));
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "1:0");
  EXPECT_THAT(Log(),
              HasSubstr("strata: error: the job has 5 ranks, the nodes have 4 slots in all"));
  Submit(LenetJob("job", 2, 1, 20), {"--set", "ranks=none"});
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "2:0");
  EXPECT_THAT(Log(), HasSubstr("strata: error: "));
}

TEST_F(Slurm, ScancelEndsEveryDaemon) {
  SubmitLongJob();
  ASSERT_TRUE(slurm_->Run({"scancel", job_}).ok());
  EXPECT_EQ(slurm_->WaitForEnd(job_), "CANCELLED");
  EXPECT_FALSE(std::filesystem::exists(KeysFolder()));
  EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(30)));
  EXPECT_THAT(RemainingAtLast(traces_), IsEmpty());
}

// What Slurm sends before the time limit, too.
TEST_F(Slurm, SigtermToTheScriptStopsTheDaemonsInTheirOrder) {
  SubmitLongJob();
  ASSERT_TRUE(slurm_->Run({"scancel", "--batch", "--signal=TERM", job_}).ok());
  EXPECT_EQ(slurm_->WaitForEnd(job_), "FAILED");
  EXPECT_EQ(slurm_->JobField(job_, "ExitCode"), "143:0");
  EXPECT_FALSE(std::filesystem::exists(KeysFolder()));
  EXPECT_THAT(Log(), HasSubstr("strata: error: stopped before the job had ended\n"));
  EXPECT_THAT(Log(), testing::Not(HasSubstr("had to be killed")));
  EXPECT_THAT(Processes(), IsEmpty()) << "when the script ends, its daemons have ended";
  EXPECT_THAT(Remaining(traces_), IsEmpty());
}

}  // namespace
}  // namespace strata::tests

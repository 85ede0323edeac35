// exchange: MPI, with real processes under mpirun.
#include <stdio.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 20;

std::string Plugin() {
  return std::filesystem::absolute("worker/client/libstrata_mpi.so").string();
}

struct Ended {
  int code = -1;
  std::string text;
};

// Returns both streams together; killed after two minutes.
Ended Shell(const std::string& command) {
  Ended ended;
  FILE* pipe = popen(absl::StrCat("timeout -k 5 120 ", command, " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ended;
  char buffer[4096];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    ended.text.append(buffer, got);
  }
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

Ended MpiRun(int processes, const proto::Job& job, const std::string& more = "") {
  return Shell(absl::StrCat("mpirun --allow-run-as-root --oversubscribe -n ", processes, " ",
                            StrataBinary(), " rank --job ", WriteJob(TestDir(), job),
                            " --mpi-plugin ", Plugin(), " ", more));
}

proto::Job MpiJob(const std::string& name, int ranks) {
  proto::Job job = LenetJob(name, ranks, 1, kSteps);
  job.set_exchange(proto::Job::MPI);
  job.set_run_dir(absl::StrCat(TestDir(), "/", name));
  job.mutable_metrics()->set_every_steps(5);
  return job;
}

// Two addends have the same sum in any order.
TEST(Mpi, TwoRanksHaveTheBitsOfTwoNodesWithAServer) {
  const proto::Job job = MpiJob("two", 2);
  const Ended ended = MpiRun(2, job);
  ASSERT_EQ(ended.code, 0) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("done before they were waited for"));
  const auto own = Hashes(job.run_dir(), 0);
  ASSERT_EQ(own.size(), kSteps + 1u) << ended.text;
  EXPECT_EQ(Hashes(job.run_dir(), 1), own);
  Cluster cluster({1, 1, 2, 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const proto::JobStatus servers = cluster.RunToEnd(LenetJob("servers", 2, 1, kSteps));
  EXPECT_EQ(Hashes(servers.run_dir(), 0), own);
  // The metrics count both ranks' samples, and the model exists.
  uint64_t samples = 0;
  for (const auto& line : Metrics(job.run_dir())) samples = line["samples"].get<uint64_t>();
  EXPECT_EQ(samples, 2u * 16 * kSteps);
  EXPECT_TRUE(std::filesystem::exists(job.run_dir() + "/model.safetensors"));
}

TEST(Mpi, ThreeRanksEndWithOneModel) {
  const proto::Job job = MpiJob("three", 3);
  const Ended ended = MpiRun(3, job);
  ASSERT_EQ(ended.code, 0) << ended.text;
  const auto own = Hashes(job.run_dir(), 0);
  ASSERT_EQ(own.size(), kSteps + 1u);
  for (int rank : {1, 2}) EXPECT_EQ(Hashes(job.run_dir(), rank), own);
}

// Changes the last byte of the weights in a checkpoint.
void Damage(const std::string& dir, int step) {
  for (const auto& entry :
       std::filesystem::directory_iterator(absl::StrFormat("%s/clock-%020d", dir, step))) {
    if (!absl::StrContains(entry.path().filename().string(), "shard")) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char last = static_cast<char>(file.get());
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(last ^ 1));
    return;
  }
  ADD_FAILURE() << "no shard in " << dir;
}

proto::Job CheckpointedMpiJob(const std::string& name, const std::string& folder, int steps) {
  proto::Job job = MpiJob(name, 2);
  job.set_name("mpi");
  job.set_run_dir(absl::StrCat(TestDir(), "/", name));
  job.set_max_steps(steps);
  job.mutable_optimizer()->mutable_adam();
  job.mutable_checkpoint()->set_dir(absl::StrCat(TestDir(), "/", folder));
  job.mutable_checkpoint()->set_every_steps(5);
  SlowDown(&job, 20);  // so that the store keeps up
  job.mutable_checkpoint()->set_keep(3);
  return job;
}

TEST(Mpi, GoesOnFromItsNewestWholeCheckpointWithTheSameBits) {
  const proto::Job whole = CheckpointedMpiJob("undisturbed", "undisturbed-kept", kSteps);
  ASSERT_EQ(MpiRun(2, whole).code, 0);
  ASSERT_EQ(MpiRun(2, CheckpointedMpiJob("part", "kept", 15)).code, 0);
  const std::string dir = TestDir() + "/kept";
  const CommandResult verified = RunStrata({"checkpoint", "verify", dir});
  EXPECT_EQ(verified.status.code, 0) << verified.out << verified.err;
  // Another run does not write into it without an option.
  const Ended refused = MpiRun(2, CheckpointedMpiJob("again", "kept", kSteps));
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.text, HasSubstr("has checkpoints of job 0 (mpi) of another cluster"));
  Damage(dir, 15);
  const proto::Job more = CheckpointedMpiJob("more", "kept", kSteps);
  const Ended ended = MpiRun(2, more, "--resume " + dir);
  ASSERT_EQ(ended.code, 0) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("passes over the checkpoint of step 15: "));
  const auto all = Hashes(whole.run_dir(), 0), own = Hashes(more.run_dir(), 0);
  ASSERT_EQ(own.size(), kSteps - 10 + 1u);
  EXPECT_EQ(own.back(), all.back());
  EXPECT_EQ(Hashes(more.run_dir(), 1), own);
  proto::Job other = CheckpointedMpiJob("other", "other-kept", kSteps);
  other.mutable_optimizer()->mutable_sgd();
  const Ended differs = MpiRun(2, other, "--resume " + dir);
  EXPECT_NE(differs.code, 0);
  EXPECT_THAT(differs.text, HasSubstr("optimizer"));
}

TEST(Mpi, AnotherNumberOfProcessesThanRanksIsOneLine) {
  const Ended ended = MpiRun(2, MpiJob("four", 4));
  EXPECT_NE(ended.code, 0);
  const std::string line = "strata: error: ranks: 4, but mpirun started 2 (-n 4, or --set ranks=2)";
  ASSERT_THAT(ended.text, HasSubstr(line));
  EXPECT_EQ(ended.text.find(line, ended.text.find(line) + 1), std::string::npos) << ended.text;
}

TEST(Mpi, ALossThatIsNotFiniteEndsAllAndNamesTheRank) {
  proto::Job job = MpiJob("nan", 2);
  job.mutable_debug()->set_nan_rank(1);
  job.mutable_debug()->set_nan_step(3);
  const Ended ended = MpiRun(2, job);
  EXPECT_NE(ended.code, 0);
  EXPECT_THAT(ended.text, HasSubstr("strata: error: rank 1: loss is NaN at step 3"));
}

TEST(Mpi, WithoutAPluginToLoadOrWithoutMpirunThereIsOneLine) {
  const std::string job = WriteJob(TestDir(), MpiJob("absent", 2));
  const CommandResult absent =
      RunStrata({"rank", "--job", job, "--mpi-plugin", "/nowhere/libstrata_mpi.so"});
  EXPECT_EQ(absent.status.code, 2);
  EXPECT_THAT(absent.err, HasSubstr("exchange: MPI needs the plugin that is built where MPI is "
                                    "installed: /nowhere/libstrata_mpi.so"));
  const std::string open = TestDir() + "/open.so";
  std::ofstream(open) << "x";
  std::filesystem::permissions(open, std::filesystem::perms(0666));
  const CommandResult others = RunStrata({"rank", "--job", job, "--mpi-plugin", open});
  EXPECT_EQ(others.status.code, 1);
  EXPECT_THAT(others.err, HasSubstr(open + ": others may replace it ("));
  EXPECT_THAT(others.err, HasSubstr(" has mode 0666): chmod go-w /"));
  const CommandResult submitted = RunStrata({"local", "--job", job});
  EXPECT_EQ(submitted.status.code, 2);
  EXPECT_THAT(submitted.err, HasSubstr("exchange: MPI is started by mpirun"));
}

}  // namespace
}  // namespace strata::tests

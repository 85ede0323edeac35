// However a cluster ends, it leaves no process, no socket and no shared memory behind.
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::IsEmpty;

// A job that would run for hours.
proto::Job LongJob(const std::string& name) {
  proto::Job job = LenetJob(name, 4, 2, 10'000'000);
  job.mutable_debug()->clear_hash_weights();
  return job;
}

void ExpectNoProcess() {
  EXPECT_TRUE(WaitUntil([] { return Processes().empty(); }, absl::Seconds(20)));
  EXPECT_THAT(Processes(), IsEmpty());
}

class CleanStop : public testing::Test {
 protected:
  void StartWithJob() {
    ASSERT_EQ(cluster_.Start(), absl::OkStatus());
    auto id = cluster_.Submit(LongJob("long"));
    ASSERT_TRUE(id.ok()) << id.status();
    job_ = *id;
    proto::JobStatus status = cluster_.WaitForStep(job_, 1);
    ASSERT_EQ(status.state(), proto::RUNNING) << status.reason();
    ASSERT_EQ(ListProcesses("rank").size(), 4u);
    ASSERT_EQ(ListProcesses("aggregator").size(), 2u);
    traces_ = Traces();
    ASSERT_EQ(Remaining(traces_).size(), 2u + 4u) << "a socket of each aggregator and each shard";
  }

  // The job's processes and everything they had are gone.
  void ExpectNoJobLeft() {
    EXPECT_TRUE(WaitUntil([] { return ListProcesses("rank").empty(); }, absl::Seconds(20)));
    EXPECT_TRUE(WaitUntil([] { return ListProcesses("aggregator").empty(); }, absl::Seconds(20)));
    // Shards stay, and so do the sockets at which peers on their host connect.
    const std::vector<std::string> remaining = RemainingAtLast(traces_, 4);
    EXPECT_THAT(remaining, testing::SizeIs(4));
    EXPECT_THAT(remaining, testing::Each(testing::StartsWith("@strata-regions-")));
  }

  void ExpectNothingLeft() {
    ExpectNoProcess();
    EXPECT_THAT(RemainingAtLast(traces_), IsEmpty());
  }

  Cluster cluster_{{2, 2, 2, 2}};
  JobId job_;
  std::vector<std::string> traces_;
};

TEST_F(CleanStop, OnSigtermOfEveryDaemon) {
  StartWithJob();
  cluster_.StopAll();
  ExpectNothingLeft();
}

TEST_F(CleanStop, OnCancel) {
  StartWithJob();
  ASSERT_EQ(cluster_.client().Cancel(job_), absl::OkStatus());
  EXPECT_EQ(cluster_.WaitForEnd(job_).state(), proto::CANCELLED);
  ExpectNoJobLeft();
  cluster_.StopAll();
  ExpectNothingLeft();
}

TEST_F(CleanStop, AfterSigkillOfARank) {
  StartWithJob();
  kill(ListProcesses("rank").front(), SIGKILL);
  proto::JobStatus status = cluster_.WaitForEnd(job_);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(),
              testing::MatchesRegex("rank [0-3] \\(node [01], w[01]\\): killed by signal 9 .*"));
  ExpectNoJobLeft();
  cluster_.StopAll();
  ExpectNothingLeft();
}

TEST_F(CleanStop, AfterSigkillOfAnAggregator) {
  StartWithJob();
  kill(ListProcesses("aggregator").front(), SIGKILL);
  proto::JobStatus status = cluster_.WaitForEnd(job_);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(),
              testing::MatchesRegex("aggregator \\(node [01], w[01]\\): killed by signal 9 .*"));
  cluster_.StopAll();
  ExpectNothingLeft();
}

TEST_F(CleanStop, AfterSigkillOfAWorkerDaemon) {
  StartWithJob();
  cluster_.worker(1).process->Signal(SIGKILL);
  cluster_.worker(1) = Daemon();
  EXPECT_EQ(cluster_.WaitForEnd(job_).state(), proto::FAILED);
  cluster_.StopAll();
  ExpectNothingLeft();
}

// `strata local` under each signal that asks it to stop.
class LocalCleanStop : public testing::TestWithParam<int> {};

TEST_P(LocalCleanStop, WithARunningJob) {
  std::string runs = TestDir() + "/runs";
  std::string job = WriteJob(TestDir(), LongJob("long"));
  auto local = StartDaemon("local", {"local", "--servers", "2", "--nodes", "2", "--slots", "2",
                                     "--runs", runs, "--job", job});
  ASSERT_TRUE(local.ok()) << local.status();
  ASSERT_TRUE(WaitUntil([&] { return std::filesystem::exists(runs + "/long-1/metrics.jsonl"); }));
  std::vector<std::string> traces = Traces();
  ASSERT_EQ(Remaining(traces).size(), 6u)
      << "sockets of the coordinator, two aggregators, two shards; the state";
  // Ctrl-C reaches the foreground process only: its children have their own process groups.
  kill(local->process->pid(), GetParam());
  ASSERT_TRUE(WaitUntil([&] { return local->process->TryReap().has_value(); }));
  EXPECT_EQ(local->process->TryReap()->ToString(),
            GetParam() == SIGKILL ? "killed by signal 9 (Killed)" : "exited with status 1");
  ExpectNoProcess();
  // A killed process cannot remove its temporary folder and its socket; the next one does. Nothing
  // else remains.
  for (const std::string& trace : RemainingAtLast(traces)) {
    EXPECT_EQ(GetParam(), SIGKILL) << trace;
    EXPECT_THAT(trace, testing::MatchesRegex("/tmp/strata-local-.*|.*/[0-9]+-[0-9a-f]+"));
    std::filesystem::remove_all(trace);
  }
}

INSTANTIATE_TEST_SUITE_P(Signals, LocalCleanStop, testing::Values(SIGINT, SIGTERM, SIGKILL),
                         [](const auto& info) {
                           return std::string(info.param == SIGINT    ? "CtrlC"
                                              : info.param == SIGTERM ? "Sigterm"
                                                                      : "Sigkill");
                         });

}  // namespace
}  // namespace strata::tests

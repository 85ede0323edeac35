// One node under SIGSTOP: its own job waits and ends with the weights that it has without; another
// job on the same servers goes on meanwhile.
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

constexpr absl::Duration kStopped = absl::Seconds(10);

class StoppedNode : public testing::Test {
 protected:
  // Trains the job undisturbed, then again on w0 and w1, next to an endless one on w2 and w3.
  void Begin() {
    ASSERT_EQ(cluster_.Start(), absl::OkStatus());
    const proto::JobStatus alone = cluster_.RunToEnd(LenetJob("alone", 2, 1, 200));
    expected_ = Hashes(alone.run_dir(), 0);
    proto::Job job = LenetJob("stopped", 2, 1, 200);
    proto::Delay* delay = job.mutable_debug()->add_delays();
    delay->set_node(0);
    delay->set_delay_ms(20);
    job_ = Submit(job);
    other_ = Submit(LenetJob("other", 2, 1, 10'000'000));
    processes_ = ProcessesOfNodeOne();
    ASSERT_EQ(processes_.size(), 2u) << "aggregator and rank";
  }

  // Stops these for a while, in which the other job must go on and this one must not.
  void StopForAWhile(const std::vector<int>& pids) {
    for (int pid : pids) ASSERT_EQ(kill(pid, SIGSTOP), 0);
    const absl::Time until = absl::Now() + kStopped;
    // What was on its way is reported by now.
    const absl::Time settled = absl::Now() + absl::Seconds(3);
    WaitUntil([&] { return absl::Now() >= settled; });
    const uint64_t step = cluster_.Status(job_).progress().step();
    const uint64_t other = cluster_.Status(other_).progress().step();
    WaitUntil([&] { return absl::Now() >= until; });
    EXPECT_EQ(cluster_.Status(job_).progress().step(), step);
    EXPECT_GT(cluster_.WaitForStep(other_, other + 1).progress().step(), other);
    for (int pid : pids) EXPECT_EQ(kill(pid, SIGCONT), 0);
  }

  void ExpectUndisturbed() {
    const proto::JobStatus status = cluster_.WaitForEnd(job_, absl::Minutes(5));
    EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
    EXPECT_EQ(Hashes(status.run_dir(), 0), expected_);
    EXPECT_EQ(Hashes(status.run_dir(), 1), expected_);
    EXPECT_EQ(cluster_.Status(other_).state(), proto::RUNNING);
    EXPECT_EQ(cluster_.client().Cancel(other_), absl::OkStatus());
    cluster_.WaitForEnd(other_);
    cluster_.StopAll();
  }

  Cluster cluster_{{.servers = 1,
                    .shards = 2,
                    .nodes = 4,
                    .slots = 1,
                    .coordinator_args = {"--dead-after", "60"}}};
  std::vector<int> processes_;  // of the job's node 1

 private:
  JobId Submit(const proto::Job& job) {
    const auto id = cluster_.Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return JobId();
    EXPECT_EQ(cluster_.WaitForStep(*id, 1).state(), proto::RUNNING);
    return *id;
  }

  // Known by the logs that they write.
  std::vector<int> ProcessesOfNodeOne() {
    const std::string logs = cluster_.Status(job_).run_dir() + "/logs/";
    std::vector<int> pids;
    for (const char* subcommand : {"aggregator", "rank"}) {
      for (int pid : ListProcesses(subcommand)) {
        std::error_code error;
        const std::filesystem::path log =
            std::filesystem::read_symlink(absl::StrCat("/proc/", pid, "/fd/1"), error);
        if (log == logs + "aggregator-node1.log" || log == logs + "rank1.log") pids.push_back(pid);
      }
    }
    return pids;
  }

  std::vector<std::string> expected_;  // hashes by step
  JobId job_, other_;
};

TEST_F(StoppedNode, ItsAggregatorAndRankGoOnWhereTheyWere) {
  Begin();
  StopForAWhile(processes_);
  ExpectUndisturbed();
}

TEST_F(StoppedNode, TheWorkerDaemonTooWhereTheCoordinatorIsPatientEnough) {
  Begin();
  std::vector<int> pids = processes_;
  pids.push_back(cluster_.worker(1).process->pid());
  StopForAWhile(pids);
  ExpectUndisturbed();
}

}  // namespace
}  // namespace strata::tests

// One node under SIGSTOP: its own job waits, and ends with the same weights as without the stop;
// another job on the same servers continues meanwhile.
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

constexpr int kSteps = 200;
constexpr absl::Duration kStopped = absl::Seconds(10);

class StoppedNode : public testing::Test {
 protected:
  // Trains a job undisturbed; then runs an endless one on two other nodes.
  void Begin() {
    ASSERT_EQ(cluster_.Start(), absl::OkStatus());
    const proto::JobStatus alone = cluster_.RunToEnd(LenetJob("alone", 2, 1, kSteps));
    expected_ = Hashes(alone.run_dir(), 0);
    other_ = Submit(LenetJob("other", 2, 1, 10'000'000));
  }

  // Runs the first job again; stops its node 1 once it trains, and if `too` that node's worker
  // daemon.
  void RunAndStop(const std::string& name, bool too) {
    proto::Job job = LenetJob(name, 2, 1, kSteps);
    proto::Delay* delay = job.mutable_debug()->add_delays();
    delay->set_node(0);
    delay->set_delay_ms(20);
    jobs_.push_back(Submit(job));
    std::vector<int> pids = ProcessesOfNodeOne(jobs_.back());
    ASSERT_EQ(pids.size(), 2u) << "aggregator and rank";
    if (too) {
      int worker = 0;  // the number in "w5"
      const std::string daemon = cluster_.Status(jobs_.back()).nodes(1).daemon();
      ASSERT_TRUE(absl::SimpleAtoi(daemon.substr(1), &worker)) << daemon;
      pids.push_back(cluster_.worker(worker).process->pid());
    }
    for (int pid : pids) ASSERT_EQ(kill(pid, SIGSTOP), 0);
    stopped_.insert(stopped_.end(), pids.begin(), pids.end());
  }

  // Waits for a while, in which the other job must continue and these must not; then continues
  // these.
  void WaitAndContinue() {
    const absl::Time until = absl::Now() + kStopped;
    // Messages in flight have been reported by then.
    const absl::Time settled = absl::Now() + absl::Seconds(3);
    WaitUntil([&] { return absl::Now() >= settled; });
    std::vector<uint64_t> steps;
    for (const JobId job : jobs_) steps.push_back(cluster_.Status(job).progress().step());
    const uint64_t other = cluster_.Status(other_).progress().step();
    WaitUntil([&] { return absl::Now() >= until; });
    for (size_t i = 0; i < jobs_.size(); ++i) {
      EXPECT_EQ(cluster_.Status(jobs_[i]).state(), proto::RUNNING);
      EXPECT_EQ(cluster_.Status(jobs_[i]).progress().step(), steps[i]);
    }
    EXPECT_GT(cluster_.WaitForStep(other_, other + 1).progress().step(), other);
    for (int pid : stopped_) EXPECT_EQ(kill(pid, SIGCONT), 0);
  }

  void ExpectUndisturbed() {
    for (const JobId job : jobs_) {
      const proto::JobStatus status = cluster_.WaitForEnd(job, absl::Minutes(5));
      EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
      EXPECT_EQ(Hashes(status.run_dir(), 0), expected_);
      EXPECT_EQ(Hashes(status.run_dir(), 1), expected_);
    }
    EXPECT_EQ(cluster_.Status(other_).state(), proto::RUNNING);
    EXPECT_EQ(cluster_.client().Cancel(other_), absl::OkStatus());
    cluster_.WaitForEnd(other_);
    cluster_.StopAll();
  }

  Cluster cluster_{{.servers = 1,
                    .shards = 2,
                    .nodes = 6,
                    .slots = 1,
                    .coordinator_args = {"--dead-after", "60"}}};

 private:
  JobId Submit(const proto::Job& job) {
    const auto id = cluster_.Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return JobId();
    EXPECT_EQ(cluster_.WaitForStep(*id, 1).state(), proto::RUNNING);
    return *id;
  }

  // Identified by the logs that they write.
  std::vector<int> ProcessesOfNodeOne(JobId job) {
    const std::string logs = cluster_.Status(job).run_dir() + "/logs/";
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
  std::vector<JobId> jobs_;            // those whose node 1 is stopped
  std::vector<int> stopped_;           // processes
  JobId other_;
};

TEST_F(StoppedNode, GoesOnWhereItWasAndWithItsWorkerDaemonWhereTheCoordinatorIsPatientEnough) {
  Begin();
  RunAndStop("stopped", false);
  RunAndStop("stopped-with-daemon", true);
  WaitAndContinue();
  ExpectUndisturbed();
}

}  // namespace
}  // namespace strata::tests

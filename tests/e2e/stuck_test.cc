// A stalled job reports who blocks it, in its status and in the coordinator's log.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

constexpr int kSteps = 300;

class Stuck : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(cluster_.Start(), absl::OkStatus()); }

  // A job on two nodes with two ranks each, in training.
  JobId Train(const std::string& name) {
    const auto id = cluster_.Submit(LenetJob(name, 4, 2, kSteps));
    EXPECT_TRUE(id.ok()) << id.status();
    if (!id.ok()) return JobId();
    EXPECT_EQ(cluster_.WaitForStep(*id, 1).state(), proto::RUNNING);
    return *id;
  }

  // Stops the job's rank or aggregator that logs to `file`. Returns its id; 0: there is none.
  int Stop(JobId job, const std::string& subcommand, const std::string& file) {
    const std::string log = cluster_.Status(job).run_dir() + "/logs/" + file;
    for (int pid : ListProcesses(subcommand)) {
      std::error_code error;
      if (std::filesystem::read_symlink(absl::StrFormat("/proc/%d/fd/1", pid), error) != log) {
        continue;
      }
      EXPECT_EQ(kill(pid, SIGSTOP), 0);
      return pid;
    }
    ADD_FAILURE() << "no " << subcommand << " logs into " << log;
    return 0;
  }

  // Returns the job's only wait, once it has lasted long enough to be in the log, too.
  proto::Wait AwaitLongWait(JobId job) {
    const proto::JobStatus status = cluster_.WaitFor(job, [](const proto::JobStatus& status) {
      return control::HasEnded(status.state()) ||
             (!status.waits().empty() && status.waits(0).seconds() >= 11);
    });
    EXPECT_EQ(status.waits_size(), 1) << status.DebugString();
    return status.waits().empty() ? proto::Wait() : status.waits(0);
  }
  // "WHO at step 57 for 12 s: DOING"
  static std::string TextOf(const std::string& who, const std::string& doing,
                            const proto::Wait& wait) {
    return absl::StrFormat("%s at step %d for %d s: %s", who, wait.clock(),
                           static_cast<int>(wait.seconds()), doing);
  }
  bool LogHas(const std::string& begin, const std::string& end) {
    std::ifstream log(cluster_.coordinator().log_path);
    for (std::string line; std::getline(log, line);) {
      if (absl::StrContains(line, begin) && absl::EndsWith(line, end)) return true;
    }
    return false;
  }
  // "job 1 (NAME) "
  std::string InLog(JobId job) {
    return absl::StrFormat("job %d (%s) ", job.value(), cluster_.Status(job).name());
  }
  // Expects status, command line and log to report that `who` blocks the job at the wait's step by
  // `doing` this.
  void ExpectNamed(JobId job, const std::string& who, const std::string& doing) {
    const proto::Wait wait = AwaitLongWait(job);
    EXPECT_EQ(wait.text(), TextOf(who, doing, wait));
    const std::string words = absl::StrFormat("waits: %s at step %d for ", who, wait.clock());
    EXPECT_TRUE(WaitUntil([&] { return LogHas(InLog(job) + words, " s: " + doing); })) << words;
    const CommandResult shown =
        RunStrata({"status", absl::StrCat(job.value()), "--coordinator", cluster_.address()});
    EXPECT_THAT(shown.out, HasSubstr("\n  " + words));
  }
  void ExpectReachesTheEnd(JobId job) {
    const proto::JobStatus status = cluster_.WaitForEnd(job, absl::Minutes(5));
    EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
    EXPECT_EQ(status.progress().step(), uint64_t{kSteps});
    EXPECT_EQ(status.waits_size(), 0);
    EXPECT_TRUE(LogHas(InLog(job) + "goes on, after it had waited for ", " s"));
  }

  // A stopped daemon counts as lost after 5 s, unless the cluster has more patience.
  Cluster cluster_{{1, 1, 5, 2, {}, {"--dead-after", "120"}}};
};

// At the same time, each in its own job.
TEST_F(Stuck, TheStoppedRankTheStoppedAggregatorAndWhoNeverCallsStartAreNamedAndNoOther) {
  const JobId with_rank = Train("with-rank");
  const int rank = Stop(with_rank, "rank", "rank3.log");
  const JobId with_aggregator = Train("with-aggregator");
  const int aggregator = Stop(with_aggregator, "aggregator", "aggregator-node0.log");
  proto::Job program;
  program.set_name("idle");
  program.set_ranks(1);
  program.mutable_program()->set_path("/bin/sh");
  program.mutable_program()->add_args("-c");
  program.mutable_program()->add_args("sleep 600");
  const auto idle = cluster_.Submit(program);
  ASSERT_TRUE(idle.ok() && rank > 0 && aggregator > 0) << idle.status();

  ExpectNamed(with_rank, "node 1 (w1) rank 3", "stopped by a signal");
  const CommandResult json = RunStrata(
      {"status", absl::StrCat(with_rank.value()), "--json", "--coordinator", cluster_.address()});
  const auto waits = nlohmann::json::parse(json.out)["waits"];
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0]["node"], 1);
  EXPECT_EQ(waits[0]["rank"], 3);
  EXPECT_EQ(waits[0]["daemon"], "w1");
  EXPECT_EQ(waits[0]["doing"], "stopped by a signal");
  ExpectNamed(with_aggregator, "node 0 (w2) aggregator",
              "silent, its process is stopped by a signal");
  const proto::Wait wait = AwaitLongWait(*idle);
  EXPECT_EQ(wait.text(), absl::StrFormat("node 0 (w4) rank 0 has not joined the job for %d s",
                                         static_cast<int>(wait.seconds())));
  EXPECT_TRUE(WaitUntil([&] {
    return LogHas(InLog(*idle) + "waits: node 0 (w4) rank 0 has not joined the job", "s");
  }));
  EXPECT_EQ(cluster_.Status(*idle).state(), proto::RUNNING);
  EXPECT_TRUE(cluster_.client().Cancel(*idle).ok());

  kill(rank, SIGCONT);
  kill(aggregator, SIGCONT);
  ExpectReachesTheEnd(with_rank);
  ExpectReachesTheEnd(with_aggregator);
}

TEST_F(Stuck, TheStoppedServerIsNamedAndNoOther) {
  const JobId job = Train("still");
  const std::string port = ValueIn(cluster_.server(0).ready_line, "ports");
  cluster_.server(0).process->Signal(SIGSTOP);
  ExpectNamed(job, "server s0 (shard 0, tcp://127.0.0.1:" + port + ")",
              "silent, does not answer the pushes of 2 nodes");
  cluster_.server(0).process->Signal(SIGCONT);
  ExpectReachesTheEnd(job);
}

}  // namespace
}  // namespace strata::tests

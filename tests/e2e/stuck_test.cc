// A job that stands still says who holds it up, in its status and in the coordinator's log.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

// The rank or aggregator that logs into `file`; 0: none.
int PidOf(const std::string& subcommand, const std::string& file) {
  for (int pid : ListProcesses(subcommand)) {
    std::error_code error;
    const auto log =
        std::filesystem::read_symlink(absl::StrFormat("/proc/%d/fd/1", pid), error).string();
    if (absl::EndsWith(log, "/" + file)) return pid;
  }
  return 0;
}

class Stuck : public testing::Test {
 protected:
  // Two nodes (w0, w1) with two ranks each, in training.
  void StartWithJob() {
    ASSERT_EQ(cluster_.Start(), absl::OkStatus());
    auto id = cluster_.Submit(LenetJob("still", 4, 2, 600));
    ASSERT_TRUE(id.ok()) << id.status();
    job_ = *id;
    ASSERT_EQ(cluster_.WaitForStep(job_, 1).state(), proto::RUNNING);
  }

  // The only wait, once it has lasted so long that the log must have it, too.
  proto::Wait AwaitLongWait() {
    const proto::JobStatus status = cluster_.WaitFor(job_, [](const proto::JobStatus& status) {
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
  // `who` holds the job up at the wait's step, `doing` that: status, command line and log say so.
  void ExpectNamed(const std::string& who, const std::string& doing) {
    const proto::Wait wait = AwaitLongWait();
    EXPECT_EQ(wait.text(), TextOf(who, doing, wait));
    const std::string words = absl::StrFormat("waits: %s at step %d for ", who, wait.clock());
    EXPECT_TRUE(WaitUntil([&] { return LogHas("job 1 (still) " + words, " s: " + doing); }))
        << words;
    const CommandResult shown = RunStrata({"status", "1", "--coordinator", cluster_.address()});
    EXPECT_THAT(shown.out, HasSubstr("\n  " + words));
  }
  void ExpectGoesOnToTheEnd() {
    const proto::JobStatus status = cluster_.WaitForEnd(job_, absl::Minutes(5));
    EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
    EXPECT_EQ(status.progress().step(), 600u);
    EXPECT_EQ(status.waits_size(), 0);
    EXPECT_TRUE(LogHas("job 1 (still) goes on, after it had waited for ", " s"));
  }

  // A daemon that is stopped is lost after 5 s, unless the cluster has more patience.
  Cluster cluster_{{1, 1, 2, 2, {}, {"--dead-after", "120"}}};
  JobId job_{1};
};

TEST_F(Stuck, TheStoppedRankIsNamedAndNoOther) {
  StartWithJob();
  const int pid = PidOf("rank", "rank3.log");
  ASSERT_GT(pid, 0);
  kill(pid, SIGSTOP);
  ExpectNamed("node 1 (w1) rank 3", "stopped by a signal");
  const CommandResult json =
      RunStrata({"status", "1", "--json", "--coordinator", cluster_.address()});
  const auto waits = nlohmann::json::parse(json.out)["waits"];
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0]["node"], 1);
  EXPECT_EQ(waits[0]["rank"], 3);
  EXPECT_EQ(waits[0]["daemon"], "w1");
  EXPECT_EQ(waits[0]["doing"], "stopped by a signal");
  kill(pid, SIGCONT);
  ExpectGoesOnToTheEnd();
}

TEST_F(Stuck, TheStoppedAggregatorIsNamedAndNoOther) {
  StartWithJob();
  const int pid = PidOf("aggregator", "aggregator-node0.log");
  ASSERT_GT(pid, 0);
  kill(pid, SIGSTOP);
  ExpectNamed("node 0 (w0) aggregator", "silent, its process is stopped by a signal");
  kill(pid, SIGCONT);
  ExpectGoesOnToTheEnd();
}

TEST_F(Stuck, TheStoppedServerIsNamedAndNoOther) {
  StartWithJob();
  const std::string port = ValueIn(cluster_.server(0).ready_line, "ports");
  cluster_.server(0).process->Signal(SIGSTOP);
  ExpectNamed("server s0 (shard 0, tcp://127.0.0.1:" + port + ")",
              "silent, does not answer the pushes of 2 nodes");
  cluster_.server(0).process->Signal(SIGCONT);
  ExpectGoesOnToTheEnd();
}

TEST_F(Stuck, AProgramThatNeverCallsStartIsNamed) {
  ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  proto::Job job;
  job.set_name("idle");
  job.set_ranks(1);
  job.mutable_program()->set_path("/bin/sh");
  job.mutable_program()->add_args("-c");
  job.mutable_program()->add_args("sleep 600");
  ASSERT_TRUE(cluster_.Submit(job).ok());
  const proto::Wait wait = AwaitLongWait();
  EXPECT_EQ(wait.text(), absl::StrFormat("node 0 (w0) rank 0 has not joined the job for %d s",
                                         static_cast<int>(wait.seconds())));
  EXPECT_TRUE(WaitUntil([&] {
    return LogHas("job 1 (idle) waits: node 0 (w0) rank 0 has not joined the job", "s");
  }));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  EXPECT_TRUE(cluster_.client().Cancel(job_).ok());
}

}  // namespace
}  // namespace strata::tests

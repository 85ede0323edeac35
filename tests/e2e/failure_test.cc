// The death of any one process fails its jobs with a reason that names it; the cluster continues.
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/device_jobs.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

proto::Job ShortJob(const std::string& name) { return LenetJob(name, 4, 2, 10); }

class Failure : public testing::Test {
 protected:
  // `steps`: how long it would run without a failure.
  void StartWithJob(int steps = 10'000'000, const std::string& consistency = "sync {}") {
    ASSERT_EQ(cluster_.Start(), absl::OkStatus());
    proto::Job job = LenetJob("victim", 4, 2, steps, consistency);
    auto id = cluster_.Submit(job);
    ASSERT_TRUE(id.ok()) << id.status();
    job_ = *id;
    proto::JobStatus status = cluster_.WaitForStep(job_, 1);
    ASSERT_EQ(status.state(), proto::RUNNING) << status.reason();
  }

  Cluster cluster_{{2, 1, 2, 2}};
  JobId job_;
};

// Nodes retire from servers one by one, so only the coordinator sees the complete end.
TEST_F(Failure, ProgramsThatMakeOtherNumbersOfStepsFailTheJob) {
  ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  for (const char* mode : {"sync {}", "async {}"}) {
    const auto id = cluster_.Submit(TrainOnDevice("uneven").Job(
        absl::StrCat("ranks: 2 ranks_per_node: 1 consistency { ", mode, " }"), 10));
    ASSERT_TRUE(id.ok()) << id.status();
    const proto::JobStatus status = cluster_.WaitForEnd(*id);
    EXPECT_EQ(status.state(), proto::FAILED) << mode;
    EXPECT_THAT(status.reason(), HasSubstr(" has finished after 1")) << mode;
  }
}

TEST_F(Failure, OfAServerNamesItAndTheNextJobRuns) {
  StartWithJob();
  cluster_.server(1).process->Signal(SIGKILL);
  proto::JobStatus status = cluster_.WaitForEnd(job_);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("server s1"));
  // On the remaining server, and again on both.
  cluster_.RunToEnd(ShortJob("one-server"));
  ASSERT_EQ(cluster_.StartServer(1), absl::OkStatus());
  EXPECT_EQ(cluster_.RunToEnd(ShortJob("two-servers")).shards_size(), 2);
}

TEST_F(Failure, OfAWorkerNamesItAndTheNextJobRuns) {
  StartWithJob();
  cluster_.worker(1).process->Signal(SIGKILL);
  proto::JobStatus status = cluster_.WaitForEnd(job_);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("worker w1"));
  ASSERT_EQ(cluster_.StartWorker(1), absl::OkStatus());
  cluster_.RunToEnd(ShortJob("next"));
}

TEST_F(Failure, OfARankNamesItAndTheNextJobRuns) {
  StartWithJob(10'000'000, "async {}");
  kill(ListProcesses("rank").front(), SIGKILL);
  proto::JobStatus status = cluster_.WaitForEnd(job_);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("killed by signal 9"));
  EXPECT_THAT(status.reason(), HasSubstr("rank "));
  cluster_.RunToEnd(ShortJob("next"));
}

TEST_F(Failure, OfTheCoordinatorStopsNothingWhenItComesBack) {
  StartWithJob(400);
  Command follower = StartStrata({"submit", WriteJob(TestDir(), ShortJob("behind")), "--follow",
                                  "--coordinator", cluster_.address()});
  // The client has been told that its job was accepted, and the number after the first job's.
  // Before that it could not know whether to submit again.
  ASSERT_TRUE(WaitUntil([&] {
    std::ifstream out(follower.base + ".out");
    std::string line;
    return std::getline(out, line) && line == "job 2 (behind) submitted";
  }));
  cluster_.coordinator().process->Signal(SIGKILL);
  cluster_.coordinator() = Daemon();
  ASSERT_EQ(cluster_.StartCoordinator(), absl::OkStatus());
  proto::JobStatus status = cluster_.WaitForEnd(job_, absl::Minutes(3));
  EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.progress().step(), 400u);
  // No step is lost or counted twice; windows end every 10 steps and with each epoch of 32.
  uint64_t last = 0;
  for (const auto& line : Metrics(status.run_dir())) {
    uint64_t step = line["step"].get<uint64_t>();
    EXPECT_EQ(step, std::min(last / 10 * 10 + 10, last / 32 * 32 + 32));
    EXPECT_EQ(line["samples"].get<uint64_t>(), step * 64);
    last = step;
  }
  EXPECT_EQ(last, 400u);
  // The job that waited in the queue runs next, and is still followed.
  CommandResult followed = Finish(std::move(follower));
  EXPECT_EQ(followed.status.ToString(), "exited with status 0") << followed.err;
  EXPECT_THAT(followed.out, HasSubstr("job 2 (behind): finished after"));
}

TEST_F(Failure, PausedCoordinatorEvictsNoDaemon) {
  StartWithJob(2000);
  cluster_.coordinator().process->Signal(SIGSTOP);
  // Longer than a daemon may be silent.
  const absl::Time until = absl::Now() + absl::Seconds(7);
  WaitUntil([&] { return absl::Now() >= until; });
  cluster_.coordinator().process->Signal(SIGCONT);
  proto::JobStatus status = cluster_.WaitForEnd(job_, absl::Minutes(3));
  EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.progress().step(), 2000u);
}

TEST(FailureForGood, OfTheCoordinatorEndsEveryDaemonAndItsJobs) {
  Cluster cluster({1, 1, 1, 2, {"--reconnect-timeout", "1", "--log-level", "off"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(LenetJob("victim", 2, 2, 10'000'000));
  ASSERT_TRUE(id.ok()) << id.status();
  cluster.WaitForStep(*id, 1);
  cluster.coordinator().process->Signal(SIGKILL);
  cluster.coordinator() = Daemon();
  for (Daemon* daemon : {&cluster.server(0), &cluster.worker(0)}) {
    ASSERT_TRUE(WaitUntil([&] { return daemon->process->TryReap().has_value(); }));
    EXPECT_EQ(daemon->process->TryReap()->ToString(), "exited with status 1");
    std::ifstream log(daemon->log_path);
    std::string line;
    ASSERT_TRUE(std::getline(log, line));
    EXPECT_THAT(line, HasSubstr("strata: error: coordinator at " + cluster.address()));
    EXPECT_FALSE(std::getline(log, line)) << "more than one line: " << line;
  }
  EXPECT_THAT(Processes(), testing::IsEmpty());
}

TEST_F(Failure, RestartedCoordinatorRemembersJobsThatHaveEnded) {
  ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  proto::JobStatus before = cluster_.RunToEnd(ShortJob("before"));
  cluster_.coordinator().process->Signal(SIGTERM);
  ASSERT_TRUE(WaitUntil([&] { return cluster_.coordinator().process->TryReap().has_value(); }));
  ASSERT_EQ(cluster_.StartCoordinator(), absl::OkStatus());
  proto::JobStatus after = cluster_.Status(JobId(before.job_id()));
  EXPECT_EQ(after.state(), proto::FINISHED);
  EXPECT_EQ(after.name(), "before");
  EXPECT_EQ(after.run_dir(), before.run_dir());
  EXPECT_GT(cluster_.RunToEnd(ShortJob("after")).job_id(), before.job_id());
}

}  // namespace
}  // namespace strata::tests

// Jobs go on from their checkpoints: by themselves after any death, and where a user says so.
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/checkpointed.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

class Deaths : public Checkpointed {
 protected:
  // Awaits a checkpoint that was not there at the death before, lets `death` happen, and waits for
  // the restart. Expects its reason to say `why`.
  void Suffer(const std::string& why, const std::function<void()>& death) {
    const proto::JobStatus before = AwaitCheckpoint(job_, newest_ + 1);
    ASSERT_EQ(before.state(), proto::RUNNING) << why;
    death();
    const int restarts = before.restarts_size();
    const proto::JobStatus after = cluster_->WaitFor(job_, [&](const proto::JobStatus& status) {
      return control::HasEnded(status.state()) ||
             (status.restarts_size() > restarts && status.checkpoints().resumed_step() > newest_);
    });
    ASSERT_EQ(after.restarts_size(), restarts + 1) << after.reason();
    EXPECT_THAT(after.restarts(restarts).reason(), HasSubstr(why));
    EXPECT_GE(after.restarts(restarts).step(), before.checkpoints().newest_step());
    newest_ = after.restarts(restarts).step();
  }
  static void Kill(Daemon* daemon) {
    daemon->process->Signal(SIGKILL);
    *daemon = Daemon();
  }

  JobId job_;
  uint64_t newest_ = 0;
};

TEST_F(Deaths, OfEveryRoleOneAfterTheOtherLeaveTheModelAsItWouldBe) {
  Start({.servers = 2, .shards = 2, .nodes = 2, .slots = 2});
  constexpr int kSteps = 500;
  const std::string undisturbed = Model(Run(CheckpointedJob("undisturbed", 2, kSteps)));

  proto::Job job = CheckpointedJob("victim", 2, kSteps);
  GoOnByItself(&job);
  SlowDown(&job, 10);
  job_ = Submit(job);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").front(), SIGKILL); });
  Suffer("aggregator", [] { kill(ListProcesses("aggregator").front(), SIGKILL); });
  Suffer("server s1", [&] { Kill(&cluster_->server(1)); });  // goes on on one
  EXPECT_EQ(AwaitCheckpoint(job_, newest_ + 1).shards_size(), 2);
  ASSERT_EQ(cluster_->StartServer(1), absl::OkStatus());
  Suffer("worker w1", [&] {
    Kill(&cluster_->worker(1));
    ASSERT_EQ(cluster_->StartWorker(1), absl::OkStatus());
  });
  EXPECT_EQ(AwaitCheckpoint(job_, newest_ + 1).shards_size(), 4);
  Suffer("server s0", [&] {
    Kill(&cluster_->server(0));
    ASSERT_EQ(cluster_->StartServer(0), absl::OkStatus());
  });
  // Its death stops nothing.
  const uint64_t before = AwaitCheckpoint(job_, newest_ + 1).checkpoints().newest_step();
  Kill(&cluster_->coordinator());
  ASSERT_EQ(cluster_->StartCoordinator(), absl::OkStatus());
  AwaitCheckpoint(job_, before + 20);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").back(), SIGKILL); });

  const proto::JobStatus status = cluster_->WaitForEnd(job_);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.restarts_size(), 6);
  EXPECT_EQ(status.progress().step(), uint64_t{kSteps});
  EXPECT_TRUE(Model(status) == undisturbed);
  ExpectWindows(status, kSteps);
  const CommandResult shown =
      RunStrata({"status", std::to_string(job_.value()), "--coordinator", cluster_->address()});
  EXPECT_THAT(shown.out, testing::ContainsRegex("  restart 1 .*, from step [0-9]+: .*signal 9"));
  EXPECT_THAT(shown.out, HasSubstr("  restart 6 "));
}

TEST_F(Deaths, OfARankInAnAsyncJobLoseAndRepeatNoSample) {
  Start({.servers = 2, .shards = 1, .nodes = 2, .slots = 2});
  constexpr int kSteps = 200;
  proto::Job job = CheckpointedJob("victim", 2, kSteps, "async {}");
  GoOnByItself(&job);
  SlowDown(&job, 10);
  job_ = Submit(job);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").front(), SIGKILL); });
  Suffer("server s1", [&] { Kill(&cluster_->server(1)); });
  const proto::JobStatus status = cluster_->WaitForEnd(job_);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.progress().step(), uint64_t{kSteps});
  EXPECT_EQ(status.progress().samples(), uint64_t{kSteps} * 64);
  ExpectWindows(status, kSteps, /*in_step=*/false);
}

// Those of batch normalisation, which each rank has for itself.
TEST_F(Deaths, OfARankLeavesRunningStatisticsAsTheyWouldBe) {
  Start({.servers = 1, .shards = 1, .nodes = 2, .slots = 2});
  constexpr int kSteps = 60;
  proto::Job whole = CheckpointedJob("undisturbed", 2, kSteps);
  whole.mutable_model()->set_zoo("cnn");
  const std::string undisturbed = Model(Run(whole));
  proto::Job job = whole;
  job.mutable_checkpoint()->set_dir(TestDir() + "/victim");
  GoOnByItself(&job);
  SlowDown(&job, 40);
  job_ = Submit(job);
  Suffer("killed by signal 9", [] { kill(ListProcesses("rank").front(), SIGKILL); });
  const proto::JobStatus status = cluster_->WaitForEnd(job_);
  ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
  EXPECT_EQ(status.checkpoints().objects(), 5u);  // of the shard, and of each rank
  EXPECT_TRUE(Model(status) == undisturbed);
  EXPECT_EQ(RunStrata({"checkpoint", "verify", TestDir() + "/victim"}).status.code, 0);
}

class Elsewhere : public Checkpointed {};

TEST_F(Elsewhere, OnOtherServersShardsAndNodesItEndsWithTheSameBits) {
  Start({.servers = 1, .shards = 2, .nodes = 4, .slots = 2});
  const proto::Job whole = CheckpointedJob("whole", 2, 100);
  const std::string undisturbed = Model(Run(whole));
  proto::Job job = CheckpointedJob("moved", 1, 100);
  SlowDown(&job, 20);
  const JobId first = Submit(job);
  CancelAfter(first, 40);

  // On more servers, by the job's number; it writes to a folder of its own.
  ASSERT_EQ(cluster_->StartServer(1), absl::OkStatus());
  proto::Job second = CheckpointedJob("second", 2, 60);
  second.clear_max_steps();
  second.set_epochs(2);  // of 32 steps
  const proto::JobStatus more = Run(second, FromJob(first.value()));
  EXPECT_EQ(more.shards_size(), 4);
  EXPECT_EQ(more.checkpoints().resumed_dir(), TestDir() + "/moved");
  EXPECT_GE(more.checkpoints().resumed_step(), 40u);
  EXPECT_EQ(more.progress().step(), 64u);

  // By another cluster, which never heard of the jobs; for more steps than before.
  cluster_->StopAll();
  std::filesystem::remove_all(TestDir() + "/state");
  std::filesystem::remove_all(cluster_->runs_dir());
  Start({.servers = 3, .shards = 1, .nodes = 2, .slots = 2});
  proto::Job third = CheckpointedJob("second", 2, 100);
  const proto::JobStatus last = Run(third, FromFolder(TestDir() + "/second"));
  EXPECT_EQ(last.shards_size(), 3);
  EXPECT_EQ(last.checkpoints().resumed_step(), 60u);
  EXPECT_TRUE(Model(last) == undisturbed);
  // The last one may be whole a moment after the job's end.
  cluster_->WaitFor(JobId(last.job_id()), [](const proto::JobStatus& status) {
    return status.checkpoints().newest_step() == 100;
  });
  // Those that are newer are its own.
  EXPECT_EQ(Run(CheckpointedJob("second", 2, 110), FromFolder(TestDir() + "/second"))
                .checkpoints()
                .resumed_step(),
            100u);
}

TEST_F(Elsewhere, TheCommandGoesOnFromAFolderForMoreEpochs) {
  Start({.servers = 1, .shards = 1, .nodes = 2, .slots = 2});
  proto::Job job = CheckpointedJob("job", 2, 0);
  job.clear_max_steps();
  job.set_epochs(2);
  const proto::JobStatus two = Run(job);
  proto::Job again = job;
  again.set_epochs(3);
  again.mutable_checkpoint()->set_dir(TestDir() + "/again");
  const std::string undisturbed = Model(Run(again));
  const CommandResult submitted =
      RunStrata({"submit", WriteJob(TestDir(), job), "--resume", TestDir() + "/job", "--set",
                 "epochs=3", "--follow", "--coordinator", cluster_->address()});
  EXPECT_EQ(submitted.status.code, 0) << submitted.out << submitted.err;
  const proto::JobStatus three = cluster_->Status(JobId(two.job_id() + 2));
  EXPECT_EQ(three.checkpoints().resumed_step(), 60u);
  EXPECT_TRUE(Model(three) == undisturbed);
}

}  // namespace
}  // namespace strata::tests

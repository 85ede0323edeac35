// The queue, restarts and refusals, by events.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Message = proto::CoordinatorMessage;

TEST(CoreQueue, AJobWaitsForWorkersAndServersAndSaysSo) {
  CoreHarness cluster;
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(2));
  EXPECT_EQ(cluster.Status(job).state(), proto::QUEUED);
  EXPECT_EQ(cluster.Status(job).reason(), "waits for a worker node: none has registered");
  cluster.JoinWorker("w1", 2);
  EXPECT_EQ(cluster.Status(job).reason(), "waits for a server: none is alive");
  cluster.JoinServer("s1", 1);
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
}

TEST(CoreQueue, AJobWaitsForSlotsNamesWhoHoldsThemAndStartsWhenTheyAreFree) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 4);
  const uint32_t first = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  const uint32_t second = cluster.Submit(CoreHarness::SomeJob(4));
  const uint32_t third = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_EQ(cluster.Status(second).reason(),
            "waits for 2 more free slots: needs 4 slots, 2 of 4 free; job 1 holds 2");
  EXPECT_EQ(cluster.Status(third).reason(), "waits behind job 2") << "first in, first out";
  EXPECT_EQ(cluster.core().ListNodes(cluster.now()).daemons(1).slots_used(), 2);
  cluster.Finished("w1", first);
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(third).state(), proto::QUEUED);
}

TEST(CoreQueue, AJobWaitsForGpusAndOthersOnCoresHoldNoneOfThem) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.SetGpus("w1", 2);
  cluster.JoinWorker("w1", 8);
  proto::Job on_gpus = CoreHarness::SomeJob(2);
  on_gpus.set_device(proto::Job::GPU);
  const uint32_t on_cores = cluster.Train(CoreHarness::SomeJob(3), {"w1"}, {"s1"});
  const uint32_t first = cluster.Train(on_gpus, {"w1"}, {"s1"});
  const uint32_t second = cluster.Submit(on_gpus);
  EXPECT_EQ(cluster.Status(first).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(second).reason(),
            "waits for 2 more free GPU slots: needs 2 GPU slots, 0 of 2 free; job 2 holds 2");
  const proto::DaemonStatus shown = cluster.core().ListNodes(cluster.now()).daemons(1);
  EXPECT_EQ(shown.slots_used(), 5u);
  EXPECT_EQ(shown.gpus_size(), 2);
  EXPECT_EQ(shown.gpu_slots(), 2u);
  EXPECT_EQ(shown.gpu_slots_used(), 2u);
  cluster.Finished("w1", on_cores);
  EXPECT_EQ(cluster.Status(second).state(), proto::QUEUED) << "slots were not what it waited for";
  cluster.Finished("w1", first);
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
}

TEST(CoreQueue, AJobForGpusFailsWhereNoWorkerHasAny) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 8);
  cluster.Advance(absl::Seconds(4));
  proto::Job on_gpus = CoreHarness::SomeJob(2);
  on_gpus.set_device(proto::Job::GPU);
  const uint32_t job = cluster.Submit(on_gpus);
  EXPECT_EQ(cluster.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster.Status(job).reason(),
            "can never fit: needs 2 GPU slots, but the one worker node has 0 GPU slots: w1 0; "
            "`strata devices` there says why, unless --gpus does");
}

TEST(CoreQueue, TwoJobsThatFitRunSideBySide) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 4);
  const uint32_t first = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  const uint32_t second = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  EXPECT_EQ(cluster.Status(first).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
  EXPECT_THAT(cluster.core().ListNodes(cluster.now()).daemons(1).jobs(), ElementsAre(1, 2));
}

TEST(CoreQueue, AJobThatWaitsForLostNodesLetsOthersPass) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  cluster.JoinWorker("w2", 2);
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  const uint32_t big = cluster.Submit(CoreHarness::SomeJob(4));
  const uint32_t small = cluster.Submit(CoreHarness::SomeJob(1));
  EXPECT_THAT(cluster.Status(big).reason(), HasSubstr("waits for lost worker nodes"));
  EXPECT_EQ(cluster.Status(small).state(), proto::RUNNING);
  EXPECT_THAT(cluster.Sent("w2"), ElementsAre("Registered"));
}

TEST(CoreQueue, AJobThatCanNeverFitFailsOnceTheClusterHasSettled) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  const uint32_t early = cluster.Submit(CoreHarness::SomeJob(4));
  EXPECT_EQ(
      cluster.Status(early).reason(),
      "needs 4 slots, but the one worker node has 2 slots: w1 2; fails unless more join soon");
  cluster.JoinWorker("w2", 2);
  EXPECT_EQ(cluster.Status(early).state(), proto::RUNNING);
  cluster.Advance(absl::Seconds(4));
  const uint32_t late = cluster.Submit(CoreHarness::SomeJob(5));
  EXPECT_EQ(cluster.Status(late).state(), proto::FAILED);
  EXPECT_EQ(cluster.Status(late).reason(),
            "can never fit: needs 5 slots, but all 2 worker nodes together have 4 slots: w1 2, "
            "w2 2");
}

TEST(CoreQueue, AFailedJobFreesItsSlots) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  const uint32_t first = cluster.Train(CoreHarness::SomeJob(1), {"w1"}, {"s1"});
  const uint32_t second = cluster.Submit(CoreHarness::SomeJob(1));
  cluster.Failed("w1", first, "boom");
  EXPECT_EQ(cluster.Status(second).state(), proto::RUNNING);
}

TEST(CoreQueue, ABadJobIsRefusedAndTakesNoId) {
  CoreHarness cluster;
  proto::Job bad = CoreHarness::SomeJob(1);
  bad.set_window(1);
  EXPECT_EQ(cluster.core().Submit(bad, {}, 1, cluster.now()).status(),
            absl::InvalidArgumentError("window: 1 is not in 2 to 64"));
  EXPECT_EQ(cluster.Submit(CoreHarness::SomeJob(1)), 1);
}

TEST(CoreQueue, AJobThatCannotBeSavedIsRefused) {
  CoreHarness cluster;
  cluster.FailNextPersist();
  EXPECT_EQ(cluster.core().Submit(CoreHarness::SomeJob(1), {}, 1, cluster.now()).status(),
            absl::InternalError("disk full"));
  EXPECT_EQ(cluster.core().ListJobs().jobs_size(), 0);
}

TEST(CoreQueue, OnlySoManyEndedJobsAreKept) {
  CoordinatorCore::Options options;
  options.jobs.ended_max = 2;
  CoreHarness cluster(options);
  for (int i = 0; i < 4; ++i) {
    const uint32_t job = cluster.Submit(CoreHarness::SomeJob(1));
    ASSERT_TRUE(cluster.core().Cancel(JobId(job), cluster.now()).ok());
  }
  cluster.Advance(absl::Milliseconds(100));
  const proto::ListJobsReply jobs = cluster.core().ListJobs();
  ASSERT_EQ(jobs.jobs_size(), 2);
  EXPECT_EQ(jobs.jobs(0).job_id(), 3);
  EXPECT_EQ(cluster.stored().size(), 2);
}

TEST(CoreRefusals, ADaemonThatIsRefusedHearsWhyAndIsClosed) {
  CoreHarness cluster;
  cluster.JoinWorker("w1", 1);
  const SessionId second = cluster.JoinWorker("w1", 1, {}, /*daemon_id=*/9);
  EXPECT_THAT(
      cluster.Sent("w1"),
      ElementsAre("Registered", "Rejected: the name \"w1\" is in use by a live daemon at host"));
  EXPECT_TRUE(cluster.IsClosed(second));
}

TEST(CoreRefusals, AConnectionThatHasNotRegisteredIsClosed) {
  CoreHarness cluster;
  proto::DaemonMessage message;
  message.mutable_heartbeat();
  cluster.core().OnMessage(SessionId(500), message, cluster.now());
  EXPECT_TRUE(cluster.IsClosed(SessionId(500)));
}

TEST(CoreRefusals, MessagesAboutJobsOfOthersAreIgnored) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 1);
  cluster.JoinWorker("w2", 1);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(1), {"w1"}, {"s1"});
  cluster.Failed("w2", job, "not mine");
  cluster.Finished("w2", job);
  cluster.Report("w2", job, 0, 10);
  cluster.Report("w1", job, 5, 10);
  cluster.Failed("w1", 77, "unknown");
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(job).progress().samples(), 0);
}

class CoreRestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.JoinServer("s1", 2);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
    job_ = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1"});
    ASSERT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

TEST_F(CoreRestartTest, ARunningJobGoesOnWhenAllItsDaemonsComeBack) {
  cluster_.Restart();
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(29));
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  cluster_.Report("w1", job_, 0, 20);
  EXPECT_EQ(cluster_.Status(job_).progress().samples(), 200);
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FINISHED);
}

TEST_F(CoreRestartTest, ADaemonThatStaysAwayFailsTheJobByName) {
  cluster_.Restart();
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(30));
  EXPECT_EQ(cluster_.Status(job_).reason(),
            "worker w2 (node 1, ranks 2 to 3) did not come back within 30s of the coordinator's "
            "restart");
}

TEST_F(CoreRestartTest, AServerThatStaysAwayFailsTheJobByName) {
  cluster_.Restart();
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Advance(absl::Seconds(30));
  EXPECT_EQ(cluster_.Status(job_).reason(),
            "server s1 did not come back within 30s of the coordinator's restart");
}

TEST_F(CoreRestartTest, ANodeThatHadFinishedNeedNotComeBack) {
  cluster_.Finished("w2", job_);
  cluster_.Restart();
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(40));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  cluster_.Finished("w1", job_);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FINISHED);
}

TEST_F(CoreRestartTest, AJobThatWasStartingFailsAndItsDaemonsAreToldToStop) {
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  const uint32_t starting = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Restart();
  EXPECT_EQ(cluster_.Status(starting).reason(),
            "the coordinator was restarted while the job was starting");
  cluster_.Sent("w1");
  cluster_.JoinWorker("w1", 2, {starting});
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("Registered", "StopNode 2"));
}

TEST_F(CoreRestartTest, JobsThatComeAfterItWaitForWorkersToComeBackToo) {
  cluster_.Restart();
  cluster_.JoinWorker("w1", 2, {job_});
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Advance(absl::Seconds(20));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED) << cluster_.Status(job).reason();
  cluster_.Advance(absl::Seconds(11));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
}

TEST(CoreQueue, TheFirstJobAfterARestartWaitsForWorkersThatWereThereBefore) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  cluster.JoinWorker("w2", 2);
  cluster.Advance(absl::Seconds(10));
  cluster.Restart();
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(4));
  cluster.Advance(absl::Seconds(20));
  EXPECT_EQ(cluster.Status(job).state(), proto::QUEUED) << cluster.Status(job).reason();
}

TEST_F(CoreRestartTest, QueuedJobsStayQueuedAndIdsGoOn) {
  const uint32_t queued = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Restart();
  EXPECT_EQ(cluster_.Status(queued).state(), proto::QUEUED);
  cluster_.JoinServer("s1", 2, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Advance(absl::Seconds(20));
  EXPECT_EQ(cluster_.Status(queued).state(), proto::QUEUED)
      << "it fits once w2 is back: " << cluster_.Status(queued).reason();
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Finished("w1", job_);
  cluster_.Finished("w2", job_);
  EXPECT_EQ(cluster_.Status(queued).state(), proto::RUNNING);
  EXPECT_EQ(cluster_.Submit(CoreHarness::SomeJob(1)), queued + 1);
}

}  // namespace
}  // namespace strata::server

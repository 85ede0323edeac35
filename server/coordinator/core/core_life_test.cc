// The life of jobs, by events.

#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Message = proto::CoordinatorMessage;

class CoreLifeTest : public ::testing::Test {
 protected:
  void JoinAll() {
    cluster_.JoinServer("s1", 2);
    cluster_.JoinServer("s2", 1);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
    for (const char* daemon : {"s1", "s2", "w1", "w2"}) cluster_.Sent(daemon);
  }
  uint32_t TrainFourRanks() {
    return cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  }

  CoreHarness cluster_;
};

TEST_F(CoreLifeTest, AJobGoesThroughAllItsSteps) {
  JoinAll();
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StartNode 1"));
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StartNode 1"));
  const proto::StartNode start = cluster_.Newest("w2", Message::kStartNode).start_node();
  EXPECT_EQ(start.node(), 1);
  EXPECT_EQ(start.record().token(), 77);
  EXPECT_EQ(start.record().view().nodes(1).first_rank(), 2);

  cluster_.Ready("w2", job);
  EXPECT_THAT(cluster_.Sent("s1"), IsEmpty());
  cluster_.Ready("w1", job);
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("InstallJob 1"));
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("InstallJob 1"));
  const proto::InstallJob install = cluster_.Newest("s2", Message::kInstallJob).install_job();
  EXPECT_THAT(install.own_shards(), ElementsAre(2));
  EXPECT_EQ(install.record().placement().shard_endpoints_size(), 3);
  EXPECT_EQ(install.record().layout().elements(), 1000);
  EXPECT_EQ(install.record().job().chunk_elements(), 1000);

  cluster_.Installed("s1", job);
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  cluster_.Installed("s2", job);
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("RunNode 1"));
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("RunNode 1"));

  for (uint32_t rank : {0, 1}) cluster_.Report("w1", job, rank, 10);
  for (uint32_t rank : {2, 3}) cluster_.Report("w2", job, rank, 10);
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("JobMetrics 1"));
  EXPECT_EQ(cluster_.Status(job).progress().samples(), 400);
  EXPECT_EQ(cluster_.Status(job).nodes(1).step(), 10);

  cluster_.Finished("w1", job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Finished("w2", job);
  const proto::JobStatus status = cluster_.Status(job);
  EXPECT_EQ(status.state(), proto::FINISHED);
  EXPECT_EQ(status.reason(), "");
  EXPECT_EQ(status.run_dir(), "/runs");
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("RemoveJob 1"));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  EXPECT_EQ(cluster_.events().back().status().state(), proto::FINISHED);
}

TEST_F(CoreLifeTest, WithoutExchangeNoServerIsNeeded) {
  cluster_.JoinWorker("w1", 1);
  proto::Job job = CoreHarness::SomeJob(1);
  job.set_exchange(proto::Job::NONE);
  const uint32_t id = cluster_.Train(job, {"w1"}, {});
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("Registered", "StartNode 1", "RunNode 1"));
  cluster_.Finished("w1", id);
  EXPECT_EQ(cluster_.Status(id).state(), proto::FINISHED);
}

TEST_F(CoreLifeTest, AWindowThatSomeRankNeverReportedIsMergedAtTheEndBeforeTheFinalState) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Report("w1", job, 0, 10);
  cluster_.Finished("w1", job);
  cluster_.Finished("w2", job);
  const auto& events = cluster_.events();
  ASSERT_GE(events.size(), 2);
  EXPECT_TRUE(events[events.size() - 2].has_metrics());
  EXPECT_EQ(events.back().status().state(), proto::FINISHED);
}

TEST_F(CoreLifeTest, AFailedNodeFailsTheJobAndStopsTheOthers) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  for (const char* daemon : {"s1", "w1", "w2"}) cluster_.Sent(daemon);
  cluster_.Failed("w2", job, "rank 3 (node 1, w2): loss is NaN at step 12");
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(), "rank 3 (node 1, w2): loss is NaN at step 12");
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("RemoveJob 1"));
  cluster_.Failed("w1", job, "rank 0 (node 0, w1): stopped");  // because of StopNode
  EXPECT_THAT(cluster_.Status(job).reason(), HasSubstr("NaN"));
}

TEST_F(CoreLifeTest, AReasonThatDoesNotNameTheNodeGetsItsName) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Failed("w2", job, "out of memory");
  EXPECT_EQ(cluster_.Status(job).reason(), "worker w2 (node 1, ranks 2 to 3): out of memory");
}

TEST_F(CoreLifeTest, AServerThatCannotInstallFailsTheJob) {
  JoinAll();
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {});
  cluster_.Installed("s2", job, "out of memory");
  EXPECT_EQ(cluster_.Status(job).reason(), "server s2: out of memory");
}

TEST_F(CoreLifeTest, NodesThatDifferFailTheJobAndAreNamed) {
  JoinAll();
  const auto reason = [&](const std::function<void(proto::NodeReady*)>& change) {
    const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
    proto::NodeReady other = CoreHarness::SomeLayout(job);
    change(&other);
    cluster_.Ready("w1", job);
    cluster_.Ready("w2", other);
    EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
    return cluster_.Status(job).reason();
  };
  const std::string nodes = "node 0 (w1) and node 1 (w2) do not train the same: ";
  EXPECT_EQ(
      reason([](auto* r) { r->mutable_layout()->mutable_segments(0)->set_name("v"); }),
      nodes + "tensor 0 is \"w\" [1000] (lr x1, decay x1) and \"v\" [1000] (lr x1, decay x1)");
  EXPECT_EQ(
      reason([](auto* r) { r->mutable_layout()->mutable_segments(0)->set_decay_multiplier(0); }),
      nodes + "tensor 0 is \"w\" [1000] (lr x1, decay x1) and \"w\" [1000] (lr x1, decay x0)");
  EXPECT_EQ(reason([](auto* r) { r->set_samples_per_epoch(999); }),
            nodes + "1000 and 999 samples per epoch");
  EXPECT_EQ(reason([](auto* r) { r->set_total_steps(9); }), nodes + "100 and 9 steps");
  EXPECT_EQ(reason([](auto* r) { r->set_takes_first_weights(true); }),
            nodes + "its own and rank 0's first weights");
  EXPECT_THAT(reason([](auto* r) { r->mutable_layout()->set_elements(1001); }),
              HasSubstr("node 1 (w2): tensor \"w\""));
}

TEST_F(CoreLifeTest, AScheduleByEpochsNeedsTheirSize) {
  JoinAll();
  proto::Job job = CoreHarness::SomeJob(1);
  job.mutable_schedule()->set_warmup_epochs(1);
  const uint32_t id = cluster_.Submit(job);
  proto::NodeReady ready = CoreHarness::SomeLayout(id);
  ready.clear_samples_per_epoch();
  cluster_.Ready("w1", ready);
  EXPECT_THAT(cluster_.Status(id).reason(), HasSubstr("samples per epoch"));
}

TEST_F(CoreLifeTest, AWarmUpOfDgcNeedsThemToo) {
  JoinAll();
  proto::Job job = CoreHarness::SomeJob(1);
  job.mutable_push()->set_codec(proto::Encoding::DGC);
  job.mutable_push()->set_warmup_epochs(4);
  const uint32_t id = cluster_.Submit(job);
  proto::NodeReady ready = CoreHarness::SomeLayout(id);
  ready.clear_samples_per_epoch();
  cluster_.Ready("w1", ready);
  EXPECT_THAT(cluster_.Status(id).reason(),
              HasSubstr("push.warmup_epochs needs the samples per epoch"));
}

TEST_F(CoreLifeTest, ANodeThatEndsBeforeTrainingFailsTheJob) {
  JoinAll();
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Finished("w2", job);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w2 (node 1, ranks 2 to 3) ended before training began");
}

TEST_F(CoreLifeTest, ALostWorkerFailsItsJobs) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Milliseconds(1900));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w2 (node 1, ranks 2 to 3) is lost: its connection ended and it did not come "
            "back");
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StartNode 1", "RunNode 1", "StopNode 1"));
}

TEST_F(CoreLifeTest, ASilentServerFailsItsJobsAndItsConnectionIsClosed) {
  const SessionId session = cluster_.JoinServer("s1", 1);
  cluster_.JoinWorker("w1", 1);
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(1), {"w1"}, {"s1"});
  cluster_.Advance(absl::Milliseconds(5100), /*silent=*/"s1");
  EXPECT_EQ(cluster_.Status(job).reason(), "server s1 is lost: it has been silent for 5s");
  EXPECT_TRUE(cluster_.IsClosed(session));
}

TEST_F(CoreLifeTest, TimeInWhichTheCoordinatorStoodStillCountsAgainstNoDaemon) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Advance(absl::Milliseconds(200));
  cluster_.Disconnect("s2");
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {});  // missing
  cluster_.Stall(absl::Seconds(60));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << cluster_.Status(job).reason();
  cluster_.JoinServer("s2", 1, {job});
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {job});
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << cluster_.Status(job).reason();
  // Who stays silent is lost all the same.
  cluster_.Stall(absl::Seconds(60));
  cluster_.Advance(absl::Milliseconds(5100), /*silent=*/"s1");
  EXPECT_EQ(cluster_.Status(job).reason(), "server s1 is lost: it has been silent for 5s");
}

TEST_F(CoreLifeTest, DaemonsKeepTheirTimeToComeBackWhenARestartedCoordinatorStandsStill) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Restart();
  cluster_.Advance(absl::Seconds(20));
  cluster_.Stall(absl::Seconds(20));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << cluster_.Status(job).reason();
  cluster_.Advance(absl::Seconds(11));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
}

TEST_F(CoreLifeTest, AWorkerWhoseNodeHasFinishedMayGo) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Finished("w2", job);
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Finished("w1", job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreLifeTest, AShortBreakWhileTrainingHarmsNothing) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Report("w2", job, 2, 10);
  cluster_.Disconnect("w2");
  cluster_.Disconnect("s1");
  cluster_.Advance(absl::Seconds(1));
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {job});
  cluster_.JoinServer("s1", 2, {job});
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered"));
}

TEST_F(CoreLifeTest, MetricsThatNodeZeroMayHaveMissedInABreakAreSentAgain) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  const auto report = [&](uint64_t step) {
    for (uint32_t rank : {2, 3}) cluster_.Report("w2", job, rank, step);
  };
  for (uint64_t step : {10, 20}) {
    for (uint32_t rank : {0, 1}) cluster_.Report("w1", job, rank, step);
  }
  report(10);
  cluster_.Disconnect("w1");
  report(20);
  cluster_.Sent("w1");
  cluster_.JoinWorker("w1", 2, {job});
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("Registered", "JobMetrics 1", "JobMetrics 1"));
  EXPECT_EQ(cluster_.Newest("w1", Message::kJobMetrics).job_metrics().record().step(), 20);
  // They are node 0's alone.
  cluster_.Disconnect("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {job});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered"));
}

TEST_F(CoreLifeTest, ANodeThatMayNotKnowThatItRunsIsToldAgain) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Disconnect("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {job});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "RunNode 1"));
}

TEST_F(CoreLifeTest, AWorkerThatComesBackWithoutTheJobMaySayHowItEnded) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {});
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w2 (node 1, ranks 2 to 3) no longer runs the job");

  const uint32_t next = TrainFourRanks();
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {});
  cluster_.Finished("w2", next);
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(cluster_.Status(next).state(), proto::RUNNING);
}

TEST_F(CoreLifeTest, AServerThatComesBackWithoutTheWeightsFailsTheJob) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Disconnect("s1");
  cluster_.JoinServer("s1", 2, {});
  EXPECT_EQ(cluster_.Status(job).reason(), "server s1 no longer holds the job's weights");
}

TEST_F(CoreLifeTest, AWorkerStartedAnewFailsTheJobOfTheOneBefore) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {}, /*daemon_id=*/5);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w2 (node 1, ranks 2 to 3) is lost: it was started anew");
}

TEST_F(CoreLifeTest, DaemonsThatStillHoldAnEndedJobAreToldToLetGo) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Disconnect("w2");
  cluster_.Disconnect("s1");
  ASSERT_TRUE(cluster_.core().Cancel(JobId(job), cluster_.now()).ok());
  for (const char* daemon : {"s1", "w2"}) cluster_.Sent(daemon);
  cluster_.JoinWorker("w2", 2, {job});
  cluster_.JoinServer("s1", 2, {job, 99});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "StopNode 1"));
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("Registered", "RemoveJob 1", "RemoveJob 99"));
}

TEST_F(CoreLifeTest, CancelEndsAJobInEveryState) {
  const uint32_t queued = cluster_.Submit(CoreHarness::SomeJob(4));
  ASSERT_TRUE(cluster_.core().Cancel(JobId(queued), cluster_.now()).ok());
  EXPECT_EQ(cluster_.Status(queued).state(), proto::CANCELLED);
  EXPECT_EQ(cluster_.Status(queued).reason(), "cancelled by the user");
  JoinAll();
  const uint32_t starting = cluster_.Submit(CoreHarness::SomeJob(4));
  ASSERT_TRUE(cluster_.core().Cancel(JobId(starting), cluster_.now()).ok());
  EXPECT_EQ(cluster_.Status(starting).state(), proto::CANCELLED);
  const uint32_t training = TrainFourRanks();
  EXPECT_EQ(cluster_.Status(training).state(), proto::RUNNING);
  ASSERT_TRUE(cluster_.core().Cancel(JobId(training), cluster_.now()).ok());
  EXPECT_EQ(cluster_.Status(training).state(), proto::CANCELLED);
  EXPECT_TRUE(cluster_.core().Cancel(JobId(training), cluster_.now()).ok());
  EXPECT_EQ(cluster_.core().Cancel(JobId(99), cluster_.now()).code(), absl::StatusCode::kNotFound);
}

TEST_F(CoreLifeTest, TheLastCountersOfAShardMayComeAfterTheJobsEnd) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Finished("w1", job);
  cluster_.Finished("w2", job);
  proto::DaemonMessage message;
  proto::JobCounters* counters = message.mutable_heartbeat()->add_jobs();
  counters->set_job_id(job);
  counters->set_shard(1);
  counters->mutable_counters()->set_pushes(12);
  cluster_.Send("s1", message);
  EXPECT_EQ(cluster_.Status(job).shards(1).counters().pushes(), 12);
  EXPECT_EQ(cluster_.stored().at(job).status().shards(1).counters().pushes(), 12);
}

}  // namespace
}  // namespace strata::server

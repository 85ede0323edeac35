// Event-driven tests of the life of jobs.
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
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

TEST_F(CoreLifeTest, ANodeIsToldHowManyRanksOfAllRunningJobsShareItsMachine) {
  for (const char* worker : {"w1", "w2"}) cluster_.SetHost(worker, "one");
  cluster_.SetHost("w3", "other");
  for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 3);
  cluster_.JoinServer("s1", 1);
  const auto told = [this](const char* worker) {
    return cluster_.Newest(worker, Message::kStartNode).start_node().ranks_on_machine();
  };
  const uint32_t first = cluster_.Submit(CoreHarness::SomeJob(5));
  EXPECT_EQ(told("w1"), 5u);  // 3 here, 2 on w2
  EXPECT_EQ(told("w2"), 5u);
  cluster_.Submit(CoreHarness::SomeJob(3));
  EXPECT_EQ(told("w2"), 6u);
  EXPECT_EQ(told("w3"), 2u);
  ASSERT_TRUE(cluster_.core().Cancel(JobId(first), cluster_.now()).ok());
  cluster_.Submit(CoreHarness::SomeJob(4));
  EXPECT_EQ(told("w1"), 5u) << "a job that has ended counts no more";
}

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

TEST_F(CoreLifeTest, RanksThatHaveComeApartFailTheJobAlsoAtItsEnd) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  const auto say = [&](const char* worker, uint32_t rank, uint64_t step, uint64_t checksum) {
    proto::DaemonMessage message;
    proto::RankReport* report = message.mutable_rank_report();
    report->set_job_id(job);
    report->set_rank(rank);
    report->set_first_step(step);
    report->set_end_step(step);
    report->mutable_state()->set_step(step);
    proto::StateItem* item = report->mutable_state()->add_items();
    item->set_name("0.weight");
    item->set_checksum(checksum);
    cluster_.Send(worker, message);
  };
  for (uint32_t rank : {0, 1}) say("w1", rank, 100, 7);
  for (uint32_t rank : {2, 3}) say("w2", rank, 100, 7);
  say("w1", 2, 100, 8);  // about a rank that the worker does not have
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  say("w1", 1, 150, 1);
  cluster_.Finished("w1", job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  say("w2", 2, 150, 2);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_THAT(cluster_.Status(job).reason(),
              testing::StartsWith("rank 2's \"0.weight\" differs from rank 1's after step 150: "));
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
  cluster_.Failed("w2", job, "rank 3 (node 1, w2): loss is NaN at step 12", true);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(), "rank 3 (node 1, w2): loss is NaN at step 12");
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("RemoveJob 1"));
  cluster_.Failed("w1", job, "rank 0 (node 0, w1): stopped");  // because of StopNode
  EXPECT_THAT(cluster_.Status(job).reason(), HasSubstr("NaN"));
  EXPECT_TRUE(cluster_.Status(job).has_diverged());
  EXPECT_TRUE(cluster_.stored().at(job).status().has_diverged());
}

TEST_F(CoreLifeTest, AReasonThatDoesNotNameTheNodeGetsItsName) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Failed("w2", job, "out of memory");
  EXPECT_EQ(cluster_.Status(job).reason(), "worker w2 (node 1, ranks 2 to 3): out of memory");
  EXPECT_FALSE(cluster_.Status(job).has_diverged());
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
  // A silent daemon is lost all the same.
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
  // Only node 0's worker gets records.
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

// ---- connections that break while a job starts ----

class CoreBreakTest : public ::testing::Test {
 protected:
  void JoinAll() {
    cluster_.JoinServer("s1", 2);
    cluster_.JoinServer("s2", 1);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
    for (const char* daemon : {"s1", "s2", "w1", "w2"}) cluster_.Sent(daemon);
  }

  CoreHarness cluster_;
};

TEST_F(CoreBreakTest, BreaksWhileStartingHarmNothingWhateverWasLostInThem) {
  JoinAll();
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  const auto break_of_worker = [&](const std::string& name, bool holds) {
    cluster_.Disconnect(name);
    cluster_.Sent(name);
    cluster_.JoinWorker(name, 2, holds ? std::vector<uint32_t>{job} : std::vector<uint32_t>());
    return cluster_.Sent(name);
  };
  const auto break_of_server = [&](const std::string& name, uint32_t shards, bool holds) {
    cluster_.Disconnect(name);
    cluster_.Sent(name);
    cluster_.JoinServer(name, shards, holds ? std::vector<uint32_t>{job} : std::vector<uint32_t>());
    return cluster_.Sent(name);
  };
  // The command is lost, then the answer.
  EXPECT_THAT(break_of_worker("w2", false), ElementsAre("Registered", "StartNode 1"));
  EXPECT_THAT(break_of_worker("w2", true), ElementsAre("Registered", "StartNode 1"));
  EXPECT_EQ(cluster_.Newest("w2", Message::kStartNode).start_node().node(), 1u);
  cluster_.Ready("w2", job);
  cluster_.Ready("w2", job);
  EXPECT_THAT(break_of_worker("w2", true), ElementsAre("Registered"));
  EXPECT_THAT(break_of_server("s2", 1, false), ElementsAre("Registered"));
  cluster_.Ready("w1", job);
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("InstallJob 1"));
  EXPECT_THAT(break_of_server("s1", 2, false), ElementsAre("Registered", "InstallJob 1"));
  EXPECT_THAT(break_of_server("s1", 2, true), ElementsAre("Registered", "InstallJob 1"));
  cluster_.Installed("s1", job);
  cluster_.Installed("s1", job);
  EXPECT_THAT(break_of_server("s1", 2, true), ElementsAre("Registered"));
  EXPECT_THAT(break_of_worker("w1", true), ElementsAre("Registered"));
  cluster_.Disconnect("w1");
  cluster_.Installed("s2", job);
  cluster_.Sent("w1");
  cluster_.JoinWorker("w1", 2, {job});
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("Registered", "RunNode 1"));
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << cluster_.Status(job).reason();
}

TEST_F(CoreBreakTest, AReadyWorkerThatComesBackWithoutTheJobMaySayHowItEnded) {
  JoinAll();
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Ready("w2", job);
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {});
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w2 (node 1, ranks 2 to 3) no longer runs the job");
}

TEST_F(CoreBreakTest, AWorkerThatIsNotHeardIsNotTakenToHaveLostTheJob) {
  JoinAll();
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {});
  cluster_.Advance(absl::Seconds(4), "w2");
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << "what it has to say may be on its way";
  cluster_.Finished("w2", job);
  cluster_.Finished("w1", job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreBreakTest, AWorkerThatComesBackStopsWhatHasEndedBeforeItBeginsTheNext) {
  JoinAll();
  const uint32_t first = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Failed("w1", first, "boom");
  cluster_.Disconnect("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {first});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "StopNode 1", "StartNode 2"));
}

TEST_F(CoreBreakTest, TheProcessAfterALostOneIsLetInBeforeItIsToldAnything) {
  JoinAll();
  cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Disconnect("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {}, 77);
  EXPECT_THAT(cluster_.Sent("w2").at(0), "Registered");
}

TEST_F(CoreBreakTest, AServerThatLosesTheJobBeforeTrainingFailsIt) {
  JoinAll();
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1"});
  cluster_.Disconnect("s1");
  cluster_.JoinServer("s1", 2, {});
  EXPECT_EQ(cluster_.Status(job).reason(), "server s1 no longer holds the job's weights");
}

// ---- programs that name the optimizer ----

class CoreProgram : public testing::Test {
 protected:
  CoreProgram() {
    for (const char* name : {"w1", "w2"}) cluster_.JoinWorker(name, 2);
    cluster_.JoinServer("s1", 1);
  }

  // A job of two nodes, changed by protobuf text.
  uint32_t Submit(const std::string& fields) {
    proto::Job job = CoreHarness::SomeJob(4), more;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(fields, &more));
    job.MergeFrom(more);
    return cluster_.Submit(job);
  }

  void Ready(const std::string& worker, uint32_t job, const std::string& optimizer,
             bool says_rates) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_says_rates(says_rates);
    if (!optimizer.empty()) {
      EXPECT_TRUE(
          google::protobuf::TextFormat::ParseFromString(optimizer, ready.mutable_optimizer()));
    }
    cluster_.Ready(worker, ready);
  }

  // Returns why a job fails whose program names this optimizer.
  std::string Reason(const std::string& fields, const std::string& optimizer,
                     bool says_rates = false) {
    const uint32_t job = Submit(fields);
    Ready("w1", job, optimizer, says_rates);
    Ready("w2", job, optimizer, says_rates);
    EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
    return cluster_.Status(job).reason();
  }

  CoreHarness cluster_;
};

constexpr char kFromProgram[] = "optimizer { from_program {} } ";

TEST_F(CoreProgram, TheRecordHasTheOptimizerAndWhetherThereAreRates) {
  const uint32_t job = Submit(kFromProgram);
  EXPECT_TRUE(cluster_.Status(job).job().optimizer().has_from_program());
  Ready("w1", job, "adam { beta1: 0.5 }", true);
  Ready("w2", job, "adam { beta1: 0.5 }", true);
  const proto::JobRecord record =
      cluster_.Newest("s1", Message::kInstallJob).install_job().record();
  EXPECT_TRUE(record.says_rates());
  EXPECT_EQ(record.job().optimizer().adam().beta1(), 0.5f);
  EXPECT_EQ(record.job().optimizer().adam().beta2(), 0.999f);
  EXPECT_EQ(cluster_.Status(job).job().optimizer().adam().beta1(), 0.5f);
  cluster_.Installed("s1", job);
  EXPECT_TRUE(cluster_.Newest("w2", Message::kRunNode).run_node().record().says_rates());
}

TEST_F(CoreProgram, WhatDoesNotGoWithTheModeFailsTheJobByItsField) {
  EXPECT_THAT(Reason(std::string(kFromProgram) + "consistency { async {} }", "mean {}"),
              HasSubstr("optimizer.mean: needs sync"));
  EXPECT_THAT(
      Reason(std::string(kFromProgram) + "consistency { lazy { staleness: 3 } }", "mean {}"),
      HasSubstr("optimizer.mean: needs sync"));
  EXPECT_THAT(Reason(kFromProgram, "sgd {} clip_norm: 1"), HasSubstr("optimizer.clip_norm: "));
  EXPECT_THAT(Reason(kFromProgram, ""), HasSubstr("the program has named no optimizer"));
  EXPECT_THAT(Reason("", "sgd {}"),
              HasSubstr("the job has momentum_sgd, but the program names sgd"));
}

TEST_F(CoreProgram, NodesAgreeOnTheOptimizerAndOnWhoSaysRates) {
  const auto reason = [&](const std::string& optimizer, bool says_rates) {
    const uint32_t job = Submit(kFromProgram);
    Ready("w1", job, "sgd { weight_decay: 0.5 }", true);
    Ready("w2", job, optimizer, says_rates);
    return cluster_.Status(job).reason();
  };
  const std::string nodes = "node 0 (w1) and node 1 (w2) do not train the same: ";
  EXPECT_EQ(reason("sgd { weight_decay: 0.25 }", true),
            nodes + "optimizer sgd { weight_decay: 0.5 } and sgd { weight_decay: 0.25 }");
  EXPECT_EQ(reason("", true), nodes + "optimizer sgd { weight_decay: 0.5 } and none");
  EXPECT_EQ(reason("sgd { weight_decay: 0.5 }", false),
            nodes + "learning rates of the program and of schedule");
}

TEST_F(CoreProgram, NodesAgreeOnWhetherTheyCanGoOnFromACheckpoint) {
  const uint32_t job = Submit("optimizer { sgd {} }");
  for (const char* worker : {"w1", "w2"}) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_can_resume(worker == std::string("w2"));
    cluster_.Ready(worker, ready);
  }
  EXPECT_EQ(cluster_.Status(job).reason(),
            "node 0 (w1) and node 1 (w2) do not train the same: a program that cannot go on from a "
            "checkpoint and one that can");
}

TEST_F(CoreProgram, SaidRatesNeedNoEpochsButRmspropDoes) {
  const auto reason = [&](const std::string& optimizer, bool says_rates,
                          const std::string& schedule = "schedule { cosine {} } ") {
    const uint32_t job = Submit(kFromProgram + schedule + "epochs: 9");
    for (const char* worker : {"w1", "w2"}) {
      proto::NodeReady ready = CoreHarness::SomeLayout(job);
      ready.clear_samples_per_epoch();
      ready.set_says_rates(says_rates);
      EXPECT_TRUE(
          google::protobuf::TextFormat::ParseFromString(optimizer, ready.mutable_optimizer()));
      cluster_.Ready(worker, ready);
    }
    const proto::JobStatus status = cluster_.Status(job);
    return status.state() == proto::FAILED ? status.reason() : "";
  };
  EXPECT_THAT(reason("sgd {}", false), HasSubstr("schedule: warm-up, step and cosine need"));
  EXPECT_THAT(reason("rmsprop_warmup { center_epochs: 1 width_epochs: 1 }", true, ""),
              HasSubstr("optimizer.rmsprop_warmup needs"));
  EXPECT_THAT(reason("sgd {}", true),
              HasSubstr("schedule: the program says the learning rate of each step, so it has no "
                        "effect: take it out of the job"));
  EXPECT_EQ(reason("sgd {}", true, ""), "");
}

// ---- nodes that make different numbers of steps ----

class CoreStepsTest : public ::testing::Test {
 protected:
  void JoinAll() {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
  }
  uint32_t TrainFourRanks() {
    return cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1"});
  }

  CoreHarness cluster_;
};

// A worker's heartbeat with the steps of a node.
proto::DaemonMessage Steps(uint32_t job, uint32_t node, uint64_t published, bool made_all) {
  proto::DaemonMessage message;
  proto::NodeActivity* activity = message.mutable_heartbeat()->add_nodes();
  activity->set_job_id(job);
  activity->set_node(node);
  activity->add_ranks()->set_clock(published);
  if (made_all) activity->set_steps_made(published);
  return message;
}

TEST_F(CoreStepsTest, NodesThatMakeOtherNumbersOfStepsFailTheJobAtTheEnd) {
  JoinAll();
  uint32_t job = TrainFourRanks();
  cluster_.Finished("w2", job, 6);
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Finished("w1", job, 10);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "rank 0 (node 0, w1) has finished after 10 steps, rank 2 (node 1, w2) after 6");
  job = TrainFourRanks();
  for (const char* worker : {"w1", "w2"}) cluster_.Finished(worker, job, 10);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreStepsTest, ANodeThatGoesOnWhereAnotherHasMadeItsLastStepFailsTheJobAtOnce) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Send("w1", Steps(job, 0, 6, false));
  cluster_.Send("w2", Steps(job, 1, 6, true));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << "it may have been the last one";
  cluster_.Send("w1", Steps(job, 0, 7, false));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "rank 2 (node 1, w2) has finished after 6 steps, but rank 0 (node 0, w1) goes on");
}

// ---- refusals ----

// Session ids that the harness does not use.
const SessionId kStranger(1001), kOther(1002);

TEST(CoreRefusal, AConnectionThatNeverRegistersIsEndedAndCounted) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  cluster.Advance(absl::Seconds(9));
  EXPECT_FALSE(cluster.IsClosed(kStranger));
  cluster.Advance(absl::Seconds(2));
  EXPECT_TRUE(cluster.IsClosed(kStranger));
  cluster.core().OnDisconnected(kStranger, cluster.now());
  cluster.core().OnConnected(kOther, cluster.now());
  cluster.core().OnDisconnected(kOther, cluster.now());
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("session without Register", 2)));
}

TEST(CoreRefusal, PausesOfTheCoordinatorCountForNoDaemon) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  cluster.Stall(absl::Seconds(60));
  EXPECT_FALSE(cluster.IsClosed(kStranger));
}

TEST(CoreRefusal, AMessageBeforeRegisterIsRefused) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  proto::DaemonMessage message;
  message.mutable_node_failed()->set_job_id(1);
  cluster.core().OnMessage(kStranger, message, cluster.now());
  EXPECT_TRUE(cluster.IsClosed(kStranger));
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("before Register", 1)));
}

TEST(CoreRefusal, ARegistrationOrJobThatIsRejectedIsCounted) {
  CoreHarness cluster;
  cluster.core().OnConnected(kStranger, cluster.now());
  proto::DaemonMessage message;
  message.mutable_register_()->set_protocol_version(999);
  cluster.core().OnMessage(kStranger, message, cluster.now());
  EXPECT_FALSE(cluster.core().Submit(proto::Job(), {}, 1, cluster.now()).ok());
  EXPECT_THAT(cluster.core().refusals(),
              ElementsAre(Pair("rejected job", 1), Pair("rejected registration", 1)));
}

TEST(CoreRefusal, ACopyOfARegistrationEndsNeitherSessionNorJobAndIsCounted) {
  CoreHarness cluster;
  const SessionId server = cluster.JoinServer("s1", 1);
  const SessionId worker = cluster.JoinWorker("w1", 2);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  for (const char* daemon : {"s1", "w1"}) {
    cluster.core().OnConnected(kStranger, cluster.now());
    cluster.Repeat(daemon, kStranger);
    EXPECT_TRUE(cluster.IsClosed(kStranger));
  }
  EXPECT_FALSE(cluster.IsClosed(server));
  EXPECT_FALSE(cluster.IsClosed(worker));
  cluster.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING) << cluster.Status(job).reason();
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("registration seen before", 2)));
}

TEST(CoreRefusal, ACopyOfARegistrationIsKnownAfterARestartAndTheDaemonComesBack) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 2);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  cluster.Advance(absl::Milliseconds(100));
  cluster.Restart();
  for (const char* daemon : {"s1", "w1"}) cluster.Repeat(daemon, kStranger);
  cluster.JoinServer("s1", 1, {job});
  cluster.JoinWorker("w1", 2, {job});
  cluster.Advance(absl::Seconds(40));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING) << cluster.Status(job).reason();
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("registration seen before", 2)));
}

TEST(CoreRefusal, ADaemonThatRegistersIsNotOne) {
  CoreHarness cluster;
  const SessionId session = cluster.JoinWorker("w1", 2);
  cluster.Advance(absl::Minutes(1));
  EXPECT_FALSE(cluster.IsClosed(session));
  EXPECT_THAT(cluster.core().refusals(), IsEmpty());
}

// A properly registered daemon without a part in the job.
TEST(CoreRefusal, WhatADaemonSaysAboutAJobOfOthersIsRefused) {
  CoreHarness cluster;
  cluster.JoinServer("s0", 1);
  cluster.JoinWorker("w0", 1);
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(1), {"w0"}, {"s0"});
  cluster.JoinWorker("mallory", 1);
  cluster.Failed("mallory", job, "so it says");
  cluster.Finished("mallory", job);
  cluster.Installed("mallory", job, "so it says");
  cluster.Ready("mallory", job);
  cluster.Report("mallory", job, 0, 1000);
  cluster.Failed("w0", job + 1, "a job that nobody has submitted");
  proto::DaemonMessage message;
  message.mutable_heartbeat()->add_jobs()->set_job_id(job);
  message.mutable_heartbeat()->add_nodes()->set_job_id(job);
  cluster.Send("mallory", message);
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("about a job of other daemons", 8)));
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING);
  EXPECT_EQ(cluster.Status(job).progress().step(), 0u);
  cluster.Finished("w0", job);
  EXPECT_EQ(cluster.Status(job).state(), proto::FINISHED);
  // Late messages do not count as such.
  cluster.Report("w0", job, 0, 10);
  cluster.Send("s0", message);
  EXPECT_THAT(cluster.core().refusals(), ElementsAre(Pair("about a job of other daemons", 8)));
}

// A program's tensors are unknown before its nodes are ready.
TEST(CoreRefusal, AveragedTensorsDoNotGoWithWhatWouldChangeThem) {
  CoreHarness cluster;
  cluster.JoinServer("s0", 1);
  cluster.JoinWorker("w0", 1);
  const auto reason = [&](const char* change) {
    proto::Job job = CoreHarness::SomeJob(1);
    proto::Job part;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &part)) << change;
    if (part.has_consistency()) job.clear_consistency();
    job.MergeFrom(part);
    const uint32_t id = cluster.Submit(job);
    proto::NodeReady ready = CoreHarness::SomeLayout(id);
    ready.mutable_layout()->mutable_segments(0)->set_averaged(true);
    cluster.Ready("w0", ready);
    if (cluster.Status(id).state() == proto::FAILED) return cluster.Status(id).reason();
    cluster.Failed("w0", id, "next");
    return std::string("accepted");
  };
  const std::string tensor = "node 0 (w0): tensor \"w\": is averaged, which does not go with ";
  EXPECT_EQ(reason("push { codec: TOP_K }"), tensor + "push.codec: TOP_K");
  EXPECT_EQ(reason("push { codec: DGC } optimizer { sgd {} }"), tensor + "push.codec: DGC");
  EXPECT_EQ(reason("pull { codec: INT8 }"), tensor + "pull.codec: INT8");
  EXPECT_EQ(reason("consistency { lazy { local_steps: 2 } }"),
            tensor + "consistency.lazy.local_steps");
  EXPECT_EQ(reason("consistency { async { elastic { every_steps: 2 moving_rate: 0.5 } } }"),
            tensor + "consistency.async.elastic");
  EXPECT_EQ(reason("consistency { async { delay_compensation {} } }"),
            tensor + "consistency.async.delay_compensation");
  for (const char* fits :
       {"", "push { codec: FP16 } pull { codec: BF16 }", "consistency { lazy { staleness: 2 } }"}) {
    EXPECT_EQ(reason(fits), "accepted") << fits;
  }
}

// `change` makes a job that does not fit a program with a table; `of_second`, nodes that differ.
std::string RefusalOfTables(const std::string& settings,
                            const std::function<void(proto::Layout*)>& of_second = nullptr) {
  CoreHarness cluster;
  cluster.JoinWorker("w1", 1);
  cluster.JoinWorker("w2", 1);
  cluster.JoinServer("s1", 1);
  proto::Job job = CoreHarness::SomeJob(2);
  job.mutable_consistency()->mutable_async();
  proto::Job part;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(settings, &part)) << settings;
  if (part.has_consistency()) job.clear_consistency();
  job.MergeFrom(part);
  const uint32_t id = cluster.Submit(job);
  if (!cluster.TakeQueries().empty()) cluster.Found(id, CheckpointFound());
  proto::NodeReady ready = CoreHarness::SomeLayout(id);
  proto::Table* const table = ready.mutable_layout()->add_tables();
  table->set_name("items");
  table->set_columns(16);
  ready.set_can_resume(true);
  ready.set_endpoint("tcp://h:1");
  cluster.Ready("w1", ready);
  if (of_second) of_second(ready.mutable_layout());
  cluster.Ready("w2", ready);
  return cluster.Status(id).reason();
}

TEST(CoreTables, WhatRowsDoNotGoWithIsRefusedByTableAndField) {
  const std::string begin = "node 0 (w1): table \"items\": does not go with ";
  EXPECT_EQ(RefusalOfTables("consistency { lazy { quorum { nodes: 1 } } }"),
            begin + "consistency.lazy.quorum");
  EXPECT_EQ(RefusalOfTables("consistency { lazy { double_buffering: true } }"),
            begin + "consistency.lazy.double_buffering");
  EXPECT_EQ(RefusalOfTables("consistency { lazy { local_steps: 2 } }"),
            begin + "consistency.lazy.local_steps");
  EXPECT_EQ(
      RefusalOfTables("consistency { async { elastic { every_steps: 2 moving_rate: 0.1 } } }"),
      begin + "consistency.async.elastic");
  EXPECT_EQ(RefusalOfTables("consistency { async { delay_compensation {} } }"),
            begin + "consistency.async.delay_compensation");
  EXPECT_EQ(RefusalOfTables("exchange: RING consistency { sync {} }"), begin + "exchange: RING");
  EXPECT_EQ(RefusalOfTables("replicas: 1"), begin + "replicas");
  EXPECT_EQ(RefusalOfTables("replace { per_hour: 1 }"), begin + "replace");
}

TEST(CoreTables, NodesWhoseTablesDifferAreNamed) {
  const std::string begin = "node 0 (w1) and node 1 (w2) do not train the same: ";
  using Layout = proto::Layout;
  EXPECT_EQ(RefusalOfTables("", [](Layout* l) { l->mutable_tables(0)->set_columns(8); }),
            begin + "table \"items\": dim 16 and 8");
  EXPECT_EQ(RefusalOfTables("", [](Layout* l) { l->mutable_tables(0)->set_name("users"); }),
            begin + "table 0 is \"items\" and \"users\"");
  EXPECT_EQ(RefusalOfTables("", [](Layout* l) { l->mutable_tables(0)->set_capacity(8); }),
            begin + "table \"items\": capacity 0 and 8");
  EXPECT_EQ(RefusalOfTables("", [](Layout* l) { l->mutable_tables(0)->set_seed(8); }),
            begin + "table \"items\": seed 0 and 8");
  EXPECT_EQ(RefusalOfTables("", [](Layout* l) { l->mutable_tables(0)->set_beta(8); }),
            begin + "table \"items\": other initial values or another optimizer");
  EXPECT_EQ(RefusalOfTables("", [](Layout* l) { l->clear_tables(); }),
            begin + "1 and 0 tables: one has no \"items\"");
}

}  // namespace

}  // namespace strata::server

// Stand-in workers: nodes that died continue there if no other worker has room, and leave as soon
// as possible.
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/elastic_fixture.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Request = proto::DrainRequest;

// Stand-ins are w9 and w8, with two slots each.
class CoreStandInTest : public ElasticFixture {
 protected:
  CoreStandInTest() { cluster_.JoinStandIn("w9", 2); }

  // A job whose nodes neither join nor leave.
  static proto::Job JobThatStays() {
    proto::Job job = ReplacedJob();
    job.clear_ranks_min();
    job.clear_ranks_max();
    return job;
  }
  void Lose(const std::string& daemon) {
    cluster_.Disconnect(daemon);
    cluster_.Advance(absl::Seconds(3));
  }
  // Node 1 dies with w2, and trains on w9.
  void StandIn(const proto::Job& job) {
    Train(job);
    cluster_.Sent("w9");
    Lose("w2");
    cluster_.Ready("w9", Layout(job_));
    ASSERT_EQ(Status().nodes(1).daemon(), "w9") << Status().reason();
    ASSERT_THAT(cluster_.Sent("w9"), Contains("RunNode 1"));
    ForgetSent();
  }
  void PromiseAndInstall() {
    Promise("w1", 0, 20);
    Promise("w9", 1, 24, Asked("w9"), /*incarnation=*/2);
    for (const char* server : {"s1", "s2"}) InstallChange(server);
  }
  proto::DaemonStatus Shown(const std::string& daemon) {
    const proto::ListNodesReply nodes = cluster_.core().ListNodes(cluster_.now());
    for (const proto::DaemonStatus& one : nodes.daemons()) {
      if (one.name() == daemon) return one;
    }
    return {};
  }
};

TEST_F(CoreStandInTest, ANodeThatDiesGoesOnAtOnceWhereAWorkerStandsIn) {
  Train(ReplacedJob());
  cluster_.Sent("w9");
  Lose("w2");
  EXPECT_THAT(cluster_.Sent("w9"), ElementsAre("StartNode 1"));
  EXPECT_EQ(Status().reason(), "node 1 (rank 1) is begun again on worker w9, which only stands in");
  ASSERT_EQ(Status().replacements_size(), 1);
  EXPECT_EQ(Status().replacements(0).from(), "w2");
  EXPECT_EQ(Status().replacements(0).to(), "w9");
  cluster_.Ready("w9", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w9"), Contains("RunNode 1"));
  EXPECT_EQ(Status().reason(), "");
}

TEST_F(CoreStandInTest, AWorkerThatHasRoomComesFirst) {
  Train(ReplacedJob());
  cluster_.Submit(CoreHarness::SomeJob(2));  // occupies w3, so that no node can join there
  cluster_.JoinWorker("w3", 1);
  Lose("w2");
  EXPECT_EQ(Status().nodes(1).daemon(), "w3");
}

TEST_F(CoreStandInTest, ItsOwnWorkerComesFirst) {
  Train(ReplacedJob());
  cluster_.Failed("w2", job_, "killed");
  EXPECT_EQ(Status().nodes(1).daemon(), "w2");
}

TEST_F(CoreStandInTest, OfSeveralTheOneWithMostFreeSlotsIsTaken) {
  cluster_.JoinStandIn("w8", 3);
  Train(ReplacedJob());
  Lose("w2");
  EXPECT_EQ(Status().nodes(1).daemon(), "w8");
  Lose("w1");
  EXPECT_EQ(Status().nodes(0).daemon(), "w9") << "w8 plays a node of the job";
}

TEST_F(CoreStandInTest, OneThatDoesNotFitIsNoHelpAndIsNotSpokenOf) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  for (const char* worker : {"w1", "w2"}) cluster.JoinWorker(worker, 2);
  cluster.JoinStandIn("w9", 1);
  proto::Job job = JobThatStays();
  job.set_ranks(4);
  job.set_ranks_per_node(2);
  const uint32_t id = cluster.Submit(job);
  for (const char* worker : {"w1", "w2"}) cluster.Ready(worker, Layout(id));
  cluster.Installed("s1", id);
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster.Status(id).nodes(1).daemon(), "");
  EXPECT_THAT(cluster.Status(id).reason(), HasSubstr("waits for lost worker nodes"));
  EXPECT_THAT(cluster.Status(id).reason(), Not(HasSubstr("w9")));
}

TEST_F(CoreStandInTest, OnGpusOneThatHasNoneIsNoHelp) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  for (const char* worker : {"w1", "w2", "w8"}) cluster.SetGpus(worker, 1);
  for (const char* worker : {"w1", "w2"}) cluster.JoinWorker(worker, 1);
  cluster.JoinStandIn("w9", 4);
  proto::Job job = JobThatStays();
  job.set_device(proto::Job::GPU);
  const uint32_t id = cluster.Submit(job);
  for (const char* worker : {"w1", "w2"}) cluster.Ready(worker, Layout(id));
  cluster.Installed("s1", id);
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster.Status(id).nodes(1).daemon(), "");
  cluster.JoinStandIn("w8", 1);
  EXPECT_EQ(cluster.Status(id).nodes(1).daemon(), "w8") << cluster.Status(id).reason();
}

TEST_F(CoreStandInTest, OneThatDoesNotReachTheServersIsNoHelp) {
  cluster_.SetReach("w8", "tcp://address-s1:5000", "refused");
  cluster_.JoinStandIn("w8", 5);
  Train(ReplacedJob());
  Lose("w2");
  EXPECT_EQ(Status().nodes(1).daemon(), "w9");
}

TEST_F(CoreStandInTest, WhereTheNodeCannotBeginThereItWaitsForAWorker) {
  Train(ReplacedJob());
  Lose("w2");
  cluster_.Failed("w9", job_, "no memory");
  EXPECT_EQ(Status().nodes(1).daemon(), "");
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  cluster_.JoinWorker("w3", 1);
  EXPECT_EQ(Status().nodes(1).daemon(), "w3");
}

TEST_F(CoreStandInTest, WhileANodeBeginsThereNoneJoinsSoThatItMayGoElsewhereIfItFails) {
  Train(ReplacedJob());
  Lose("w2");
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(5));
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("StartNode 1")));
  cluster_.Failed("w9", job_, "no memory");
  EXPECT_EQ(Status().nodes(1).daemon(), "w3") << Status().reason();
}

TEST_F(CoreStandInTest, WithPerHour1ANodeThatCannotBeginWhereOneStandsInWaitsForAWorker) {
  proto::Job job = JobThatStays();
  job.mutable_replace()->set_per_hour(1);
  Train(job);
  Lose("w2");
  cluster_.Failed("w9", job_, "no memory");
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_EQ(Status().replacements_size(), 1);
  EXPECT_FALSE(cluster_.stored().at(job_).nodes(1).has_died_at_step());
  cluster_.JoinStandIn("w8", 2);
  EXPECT_EQ(Status().nodes(1).daemon(), "") << "it would be tried at one after another";
  cluster_.JoinWorker("w3", 1);
  EXPECT_EQ(Status().nodes(1).daemon(), "w3");
}

TEST_F(CoreStandInTest, WhereTheNodeCannotBeginThereItWaitsAlsoAfterTheCoordinatorsRestart) {
  Train(JobThatStays());
  Lose("w2");
  cluster_.Failed("w9", job_, "no memory");
  cluster_.Restart();
  for (const char* server : {"s1", "s2"}) cluster_.JoinServer(server, 1, {job_});
  cluster_.JoinStandIn("w9", 2);
  cluster_.JoinWorker("w1", 1, {job_});
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(Status().nodes(1).daemon(), "");
  cluster_.JoinWorker("w3", 1);
  EXPECT_EQ(Status().nodes(1).daemon(), "w3") << Status().reason();
}

TEST_F(CoreStandInTest, WhereAWorkerCannotBeginTheNodeOneThatStandsInDoesItIsNotMovedThereAgain) {
  StandIn(JobThatStays());
  cluster_.JoinWorker("w3", 1);
  ASSERT_EQ(Status().nodes(1).daemon(), "w3");
  cluster_.Failed("w3", job_, "no memory");
  EXPECT_EQ(Status().nodes(1).daemon(), "w9") << Status().reason();
  cluster_.Ready("w9", Layout(job_));
  cluster_.Advance(absl::Minutes(1));
  EXPECT_EQ(Status().nodes(1).daemon(), "w9");
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  cluster_.JoinWorker("w4", 1);
  EXPECT_EQ(Status().nodes(1).daemon(), "w4");
}

TEST_F(CoreStandInTest, AWorkerThatWasStartedAnewTakesItsNodeItselfOnceItHasSaidWhatItReaches) {
  Train(JobThatStays());
  cluster_.SetReach("w2", "tcp://address-s1:5000", std::nullopt);
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 1, {}, /*daemon_id=*/4711);
  EXPECT_EQ(Status().nodes(1).daemon(), "") << "though one stands in";
  proto::DaemonMessage tried;
  proto::PeerReach* const peer = tried.mutable_peers_tried()->add_peers();
  peer->set_name("s1");
  peer->set_address("tcp://address-s1:5000");
  cluster_.Send("w2", tried);
  EXPECT_EQ(Status().nodes(1).daemon(), "w2") << Status().reason();
}

TEST_F(CoreStandInTest, NoJobBeginsThereAndItsSlotsCountForNone) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  cluster.JoinStandIn("w9", 8);
  const uint32_t job = cluster.Submit(CoreHarness::SomeJob(2));
  EXPECT_EQ(cluster.Status(job).reason(),
            "waits for a worker node: those that are there only stand in");
  cluster.JoinWorker("w1", 1);
  EXPECT_EQ(cluster.Status(job).reason(),
            "needs 2 slots, but the one worker node has 1 slot: w1 1; fails unless more join soon");
  EXPECT_THAT(cluster.Sent("w9"), Not(Contains("StartNode 1")));
}

TEST_F(CoreStandInTest, NoNodeJoinsThere) {
  Train();
  cluster_.Advance(absl::Seconds(5));
  EXPECT_TRUE(Stored().nodes(2).absent()) << "up to 4 may play the job";
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(Stored().nodes(2).daemon(), "w3");
}

TEST_F(CoreStandInTest, NoNodeOfADrainedWorkerMovesThere) {
  Train(JobThatStays());
  cluster_.Sent("w9");
  const auto reply = cluster_.Drain("w2");
  ASSERT_TRUE(reply.ok());
  cluster_.Advance(absl::Seconds(5));
  EXPECT_THAT(cluster_.Sent("w9"), IsEmpty());
  EXPECT_THAT(reply->jobs(0).stays(), StartsWith("node 1 stays for now: "));
  EXPECT_EQ(reply->note(), "");
  EXPECT_EQ(cluster_.Drain("w1")->note(), "no other worker is left: jobs wait until there is one");
}

TEST_F(CoreStandInTest, WhereTheJobGoesOnWithoutTheNodeItLeavesWithTheNextStep) {
  StandIn(ReplacedJob());
  cluster_.Advance(absl::Milliseconds(200));
  PromiseAndInstall();
  ASSERT_EQ(Record().view_changes_size(), 1);
  EXPECT_EQ(Record().view_changes(0).at_clock(), 24u);
  EXPECT_THAT(Record().view_changes(0).left(), ElementsAre(1));
  EXPECT_EQ(Status().nodes_changes(0).reason(), "worker w9 only stands in");
  EXPECT_EQ(Status().ranks(), 1u);
  cluster_.Finished("w9", job_, 24);
  EXPECT_TRUE(Stored().nodes(1).absent());
  EXPECT_THAT(Shown("w9").jobs(), IsEmpty());
  cluster_.Sent("w9");
  cluster_.Advance(absl::Seconds(30));
  EXPECT_THAT(cluster_.Sent("w9"), IsEmpty()) << "it does not join there again";
  cluster_.JoinWorker("w2", 1, {}, /*daemon_id=*/4711);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(Stored().nodes(1).daemon(), "w2") << "the place is free";
  cluster_.Finished("w1", job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED) << Status().reason();
}

TEST_F(CoreStandInTest, WithoutRanksMinTheNodeStaysUntilAWorkerHasRoom) {
  StandIn(JobThatStays());
  cluster_.Advance(absl::Minutes(10));
  EXPECT_EQ(Status().nodes(1).daemon(), "w9") << "its patience is for nodes that do not train";
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_EQ(Status().replacements_size(), 1);
  cluster_.JoinWorker("w3", 1);
  EXPECT_THAT(cluster_.Sent("w3"), Contains("StartNode 1"));
  EXPECT_THAT(cluster_.Sent("w9"), Contains("StopNode 1"));
  ASSERT_EQ(Status().replacements_size(), 2);
  EXPECT_EQ(Status().replacements(1).reason(), "worker w9 only stands in");
  EXPECT_EQ(Status().replacements(1).from(), "w9");
  EXPECT_EQ(Status().replacements(1).to(), "w3");
}

TEST_F(CoreStandInTest, ItMovesBeforeJobsThatHaveNotBegun) {
  StandIn(JobThatStays());
  const uint32_t queued = cluster_.Submit(CoreHarness::SomeJob(1));
  cluster_.JoinWorker("w3", 1);
  EXPECT_EQ(Status().nodes(1).daemon(), "w3");
  EXPECT_EQ(cluster_.Status(queued).state(), proto::QUEUED);
}

TEST_F(CoreStandInTest, WhatIsDrainedStandsInNoMore) {
  const auto drained = cluster_.Drain("w9");
  ASSERT_TRUE(drained.ok());
  EXPECT_TRUE(drained->drained());
  EXPECT_TRUE(Shown("w9").drained());
  Train(ReplacedJob());
  Lose("w2");
  EXPECT_EQ(Status().nodes(1).daemon(), "");
  EXPECT_THAT(Status().reason(), StartsWith("node 1 (rank 1) waits since "));
  const auto back = cluster_.Drain("w9", Request::UNDO);
  ASSERT_TRUE(back.ok());
  EXPECT_FALSE(back->draining());
  EXPECT_EQ(back->note(), "it only stands in for workers that are lost");
  EXPECT_EQ(Status().nodes(1).daemon(), "w9");
  EXPECT_EQ(cluster_.Drain("w9", Request::UNDO).status().message(),
            "worker w9 is not being drained");
}

TEST_F(CoreStandInTest, WhatIsDrainedWhileItPlaysIsLeftLikeAnyOtherWorker) {
  StandIn(JobThatStays());
  const auto drained = cluster_.Drain("w9");
  ASSERT_TRUE(drained.ok());
  EXPECT_TRUE(drained->draining());
  EXPECT_FALSE(drained->drained());
  EXPECT_TRUE(Shown("w9").draining());
  EXPECT_THAT(drained->jobs(0).stays(), StartsWith("node 1 stays for now: "));
  cluster_.Failed("w9", job_, "killed");
  EXPECT_EQ(Status().nodes(1).daemon(), "") << "it is not begun there again, either";
}

TEST_F(CoreStandInTest, WhatIsAboutToEndStandsInNoMore) {
  Train(ReplacedJob());
  proto::DaemonMessage leaving;
  leaving.mutable_leaving();
  cluster_.Send("w9", leaving);
  EXPECT_EQ(cluster_.Drain("w9", Request::UNDO).status().message(),
            "worker w9 is about to end: it was told to (--notice)");
  Lose("w2");
  EXPECT_EQ(Status().nodes(1).daemon(), "");
}

TEST_F(CoreStandInTest, ItIsShownAsOneThatStandsIn) {
  EXPECT_TRUE(Shown("w9").stands_in());
  EXPECT_FALSE(Shown("w9").draining());
  EXPECT_FALSE(Shown("w9").drained()) << "nobody has drained it";
  EXPECT_FALSE(Shown("w1").stands_in());
  StandIn(ReplacedJob());
  EXPECT_TRUE(Shown("w9").stands_in());
  EXPECT_THAT(Shown("w9").jobs(), ElementsAre(1));
  EXPECT_EQ(Shown("w9").slots_used(), 1u);
}

TEST_F(CoreStandInTest, AfterTheCoordinatorsRestartTheNodeStillLeaves) {
  StandIn(ReplacedJob());
  cluster_.Restart();
  for (const char* server : {"s1", "s2"}) cluster_.JoinServer(server, 1, {job_});
  cluster_.JoinWorker("w1", 1, {job_});
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(Status().nodes(1).daemon(), "w9");
  cluster_.JoinStandIn("w9", 2, {job_});
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(cluster_.Sent("w9"), Contains("ProposeView 1"));
  PromiseAndInstall();
  EXPECT_EQ(Status().nodes_changes(0).reason(), "worker w9 only stands in");
  cluster_.Finished("w9", job_, 24);
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_TRUE(Stored().nodes(1).absent());
}

TEST_F(CoreStandInTest, AfterTheCoordinatorsRestartNoJobBeginsThere) {
  cluster_.Restart();
  cluster_.JoinServer("s1", 1);
  cluster_.JoinStandIn("w9", 2);
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(1));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
}

TEST_F(CoreStandInTest, WhereOneThatStandsInDiesAnotherOneDoesItsWork) {
  StandIn(JobThatStays());
  cluster_.JoinStandIn("w8", 2);
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(Status().nodes(1).daemon(), "w9") << "there is no better place";
  Lose("w9");
  EXPECT_EQ(Status().nodes(1).daemon(), "w8") << Status().reason();
}

TEST_F(CoreStandInTest, ItPlaysNodesOfSeveralJobs) {
  for (const char* worker : {"w3", "w4"}) cluster_.JoinWorker(worker, 1);
  const uint32_t first = cluster_.Submit(JobThatStays());
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(first));
  for (const char* server : {"s1", "s2"}) cluster_.Installed(server, first);
  const uint32_t second = cluster_.Submit(JobThatStays());
  for (const char* worker : {"w3", "w4"}) cluster_.Ready(worker, Layout(second));
  for (const char* server : {"s1", "s2"}) cluster_.Installed(server, second);
  for (const char* worker : {"w2", "w4"}) Lose(worker);
  EXPECT_EQ(cluster_.Status(first).nodes(1).daemon(), "w9");
  EXPECT_EQ(cluster_.Status(second).nodes(1).daemon(), "w9");
  EXPECT_THAT(Shown("w9").jobs(), ElementsAre(first, second));
}

}  // namespace
}  // namespace strata::server

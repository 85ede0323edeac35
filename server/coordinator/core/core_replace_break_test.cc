// Nodes that are begun again, and what comes in between: lines that break, old news, restarts.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/replace_fixture.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Message = proto::CoordinatorMessage;

using CoreReplaceBreakTest = ReplaceFixture;

TEST_F(CoreReplaceBreakTest, NobodyIsToldWhatIsNotSaved) {
  cluster_.JoinWorker("w3", 2);
  Train();
  cluster_.FailNextPersist();
  Lose("w2");
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("StopNode 1"));
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("cannot save the job"));
}

TEST_F(CoreReplaceBreakTest, ALineThatBreaksLosesNoCommand) {
  cluster_.JoinWorker("w3", 2);
  Train();
  Lose("w2");
  cluster_.Sent("w3");
  cluster_.Disconnect("w3");
  cluster_.JoinWorker("w3", 2, {});
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("Registered", "StartNode 1"));
  cluster_.Ready("w3", Layout(job_));
  cluster_.Report("w3", job_, 2, 10);
  cluster_.Sent("w3");
  cluster_.Disconnect("w3");
  cluster_.JoinWorker("w3", 2, {job_});
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("Registered", "RunNode 1"));
}

TEST_F(CoreReplaceBreakTest, AWorkerThatComesBackWithoutTheJobBeginsItAnew) {
  Train();
  cluster_.Disconnect("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {});
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "StartNode 1"));
  EXPECT_EQ(Incarnation("w2"), 2u);
}

TEST_F(CoreReplaceBreakTest, AFurtherLossBeforeItTrainsIsTheSameReplacement) {
  cluster_.JoinWorker("w3", 2);
  cluster_.JoinWorker("w4", 2);
  Train();
  Lose("w2");
  Lose("w3");
  EXPECT_THAT(cluster_.Sent("w4"), ElementsAre("StartNode 1"));
  EXPECT_EQ(Incarnation("w4"), 3u);
  EXPECT_EQ(Status().replacements_size(), 1);
  EXPECT_EQ(Newest().from(), "w2");
}

TEST_F(CoreReplaceBreakTest, AWorkerThatComesBackStopsWhatItHadAndMayBeginItAnew) {
  Train();
  Lose("w2");
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {job_});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "StopNode 1", "StartNode 1"));
  EXPECT_EQ(Incarnation("w2"), 2u);
}

TEST_F(CoreReplaceBreakTest, AWorkerWhosePlaceIsTakenStopsWhenItComesBack) {
  cluster_.JoinWorker("w3", 2);
  Train();
  Lose("w2");
  Rejoin("w3", 1, 50);
  cluster_.JoinWorker("w2", 2, {job_});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "StopNode 1"));
  EXPECT_EQ(Status().nodes(1).daemon(), "w3");
}

TEST_F(CoreReplaceBreakTest, WhatIsSaidOfEarlierProcessesChangesNothing) {
  Train();
  cluster_.Failed("w2", job_, "boom");
  const auto say_all = [&] {
    cluster_.SetIncarnation("w2", job_, 1);
    cluster_.Ready("w2", Layout(job_));
    cluster_.SayActivity("w2", job_, 1, 99, 98);
    cluster_.Finished("w2", job_, 77);
    cluster_.Failed("w2", job_, "late");
    cluster_.SetIncarnation("w2", job_, 2);
    EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
    EXPECT_EQ(Status().replacements_size(), 1);
    EXPECT_EQ(Newest().step(), 0u);
  };
  cluster_.Sent("w2");
  say_all();
  EXPECT_THAT(cluster_.Sent("w2"), IsEmpty()) << "the newest are not ready";
  cluster_.Ready("w2", Layout(job_));
  say_all();
  // Nor what comes from a worker whose place is taken.
  cluster_.JoinWorker("w3", 2);
  Lose("w2");
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Failed("w2", job_, "late");
  cluster_.Report("w2", job_, 2, 90);
  EXPECT_EQ(Status().nodes(1).daemon(), "w3");
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
}

TEST_F(CoreReplaceBreakTest, ARankMaySayWhereItsNodeGoesOnBeforeItsActivityIsTold) {
  Train();
  const auto say = [&](uint64_t first, uint64_t end, bool is_final) {
    proto::DaemonMessage message;
    message.mutable_rank_report()->set_job_id(job_);
    message.mutable_rank_report()->set_rank(2);
    message.mutable_rank_report()->set_first_step(first);
    message.mutable_rank_report()->set_end_step(end);
    message.mutable_rank_report()->set_final(is_final);
    cluster_.Send("w2", message);
  };
  say(40, 40, false);
  cluster_.Failed("w2", job_, "boom");
  say(41, 41, false);  // of processes that are about to be gone
  EXPECT_EQ(Newest().step(), 0u);
  cluster_.Ready("w2", Layout(job_));
  say(48, 60, false);
  say(60, 60, true);
  EXPECT_EQ(Newest().step(), 0u);
  say(48, 48, false);
  EXPECT_EQ(Newest().step(), 48u);
  EXPECT_EQ(cluster_.stored().at(job_).status().replacements(0).step(), 48u);
  say(60, 60, false);
  EXPECT_EQ(Newest().step(), 48u) << "the first word counts";
  cluster_.SayActivity("w2", job_, 1, 51, 47);
  EXPECT_EQ(Newest().step(), 47u) << "but for the aggregator's";
}

TEST_F(CoreReplaceBreakTest, ShardsThatHaveMovedAreInTheRecordOfTheNewNode) {
  CoreHarness cluster;
  for (const char* server : {"s1", "s2"}) {
    cluster.SetHost(server, std::string("host of ") + server);
    cluster.JoinServer(server, 1, {}, 0, std::string("address-") + server);
  }
  for (const char* worker : {"w1", "w2", "w3"}) cluster.JoinWorker(worker, 2);
  proto::Job job = Job();
  job.set_replicas(1);
  job.set_chunk_elements(500);
  const uint32_t id = cluster.Submit(job);
  for (const char* worker : {"w1", "w2"}) cluster.Ready(worker, Layout(id));
  for (const char* server : {"s1", "s2"}) cluster.Installed(server, id);
  cluster.Disconnect("s1");
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  cluster.Sent("w3");
  cluster.Ready("w3", Layout(id));
  const proto::Placement placement =
      cluster.Newest("w3", Message::kRunNode).run_node().record().placement();
  EXPECT_THAT(placement.shard_generations(), ElementsAre(2, 2)) << cluster.Status(id).reason();
  EXPECT_THAT(cluster.Status(id).reason(), HasSubstr("have one copy"));
}

// ---- restarts of the coordinator ----

TEST_F(CoreReplaceBreakTest, ACoordinatorThatRestartsKnowsWhichNodeWaits) {
  Train();
  Lose("w2");
  cluster_.Restart();
  cluster_.JoinServer("s1", 1, {job_}, 0, "address-s1");
  cluster_.JoinWorker("w1", 2, {job_});
  EXPECT_THAT(Status().reason(), StartsWith("node 1 (ranks 2 to 3) waits since 13:46:42 UTC"));
  cluster_.JoinWorker("w3", 2);
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("Registered", "StartNode 1"));
  EXPECT_EQ(Incarnation("w3"), 2u);
  Rejoin("w3", 1, 50);
  EXPECT_EQ(Status().state(), proto::RUNNING);
  EXPECT_EQ(Status().reason(), "");
}

TEST_F(CoreReplaceBreakTest, WhatElseTheReasonHadSaidIsSaidAgain) {
  CoreHarness cluster;
  for (const char* server : {"s1", "s2"}) {
    cluster.SetHost(server, std::string("host of ") + server);
    cluster.JoinServer(server, 1, {}, 0, std::string("address-") + server);
  }
  for (const char* worker : {"w1", "w2"}) cluster.JoinWorker(worker, 2);
  proto::Job job = Job();
  job.set_replicas(1);
  job.set_chunk_elements(500);
  const uint32_t id = cluster.Submit(job);
  for (const char* worker : {"w1", "w2"}) cluster.Ready(worker, Layout(id));
  for (const char* server : {"s1", "s2"}) cluster.Installed(server, id);
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  EXPECT_THAT(cluster.stored().at(id).status().reason(), StartsWith("node 1 (ranks 2 to 3) waits"));
  cluster.Disconnect("s1");
  cluster.Advance(absl::Seconds(3));
  cluster.Failed("w1", id, "boom");  // which saves the job
  cluster.Restart();
  cluster.JoinServer("s2", 1, {id}, 0, "address-s2");
  cluster.JoinWorker("w1", 2, {id});
  cluster.JoinWorker("w3", 2);
  cluster.Ready("w1", Layout(id));
  cluster.Ready("w3", Layout(id));
  EXPECT_EQ(cluster.Status(id).state(), proto::RUNNING) << cluster.Status(id).reason();
  EXPECT_THAT(cluster.Status(id).reason(), StartsWith("2 of its shards have one copy"));
}

TEST_F(CoreReplaceBreakTest, AfterARestartWorkersThatAreOnTheirWayAreWaitedFor) {
  Train();
  Lose("w2");
  cluster_.Advance(absl::Seconds(50));
  cluster_.Restart();
  cluster_.Advance(absl::Seconds(20));  // more than its patience since the loss
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
}

TEST_F(CoreReplaceBreakTest, ACoordinatorThatRestartsLetsTheNodeBeginThatWasToldTo) {
  cluster_.JoinWorker("w3", 2);
  Train();
  Lose("w2");
  cluster_.Restart();
  cluster_.JoinServer("s1", 1, {job_}, 0, "address-s1");
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Sent("w3");
  cluster_.JoinWorker("w3", 2, {job_});
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("Registered", "StartNode 1"));
  EXPECT_EQ(Incarnation("w3"), 2u);
  cluster_.Ready("w3", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("RunNode 1"));
}

TEST_F(CoreReplaceBreakTest, ACoordinatorThatRestartsKnowsTheIncarnationThatTrains) {
  cluster_.JoinWorker("w3", 2);
  Train();
  cluster_.Failed("w2", job_, "boom");
  Rejoin("w2", 1, 50);
  cluster_.Restart();
  cluster_.JoinServer("s1", 1, {job_}, 0, "address-s1");
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.Sent("w2");
  cluster_.JoinWorker("w2", 2, {job_});
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "RunNode 1"));
  cluster_.SayActivity("w2", job_, 1, 50, 50);
  cluster_.Failed("w2", job_, "boom");
  EXPECT_EQ(Status().state(), proto::FAILED) << "it has died at this step before";
}

TEST_F(CoreReplaceBreakTest, AWorkerThatDoesNotComeBackAfterARestartIsReplaced) {
  Train();
  cluster_.Restart();
  cluster_.JoinServer("s1", 1, {job_}, 0, "address-s1");
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.JoinWorker("w3", 2);
  cluster_.Sent("w3");
  cluster_.Advance(absl::Seconds(31));
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("StartNode 1"));
  EXPECT_THAT(Newest().reason(), HasSubstr("did not come back within 30s"));
}

}  // namespace
}  // namespace strata::server

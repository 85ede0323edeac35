// Nodes that die and are begun again while the job goes on, by events.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/replace_fixture.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Message = proto::CoordinatorMessage;

using CoreReplaceTest = ReplaceFixture;

TEST_F(CoreReplaceTest, ANodeWhoseWorkerIsLostGoesOnAtAnotherOne) {
  cluster_.JoinWorker("w3", 2);
  Train();
  Lose("w2");
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("StartNode 1"));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty()) << "it trains on";
  const proto::StartNode start = cluster_.Newest("w3", Message::kStartNode).start_node();
  EXPECT_EQ(start.node(), 1u);
  EXPECT_EQ(start.incarnation(), 2u);
  EXPECT_FALSE(start.record().has_placement());
  EXPECT_EQ(start.record().attempt(), 0u);
  EXPECT_EQ(cluster_.stored().at(job_).status().nodes(1).incarnation(), 2u);
  EXPECT_EQ(cluster_.stored().at(job_).status().nodes(1).daemon(), "w3");
  EXPECT_EQ(Status().reason(), "node 1 (ranks 2 to 3) is begun again on worker w3");

  cluster_.Ready("w3", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("RunNode 1"));
  EXPECT_TRUE(cluster_.Newest("w3", Message::kRunNode).run_node().record().has_placement());
  EXPECT_EQ(Status().reason(), "");
  cluster_.SayActivity("w3", job_, 1, 51, 50);
  ASSERT_EQ(Status().replacements_size(), 1);
  EXPECT_EQ(Newest().node(), 1u);
  EXPECT_EQ(Newest().from(), "w2");
  EXPECT_EQ(Newest().to(), "w3");
  EXPECT_EQ(Newest().step(), 50u);
  EXPECT_THAT(Newest().reason(), StartsWith("worker w2 (node 1, ranks 2 to 3) is lost: "));
  cluster_.Finished("w1", job_, 100);
  cluster_.Finished("w3", job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED);
}

TEST_F(CoreReplaceTest, WhatLossyPushesHadLeftOutIsLostWithTheNodeAndThatIsSaid) {
  cluster_.JoinWorker("w3", 2);
  proto::Job job = Job();
  job.mutable_push()->set_codec(proto::Encoding::INT8);
  Train(job);
  Lose("w2");
  const std::string lost = "; what its int8 pushes had left out is lost";
  EXPECT_THAT(Newest().reason(), StartsWith("worker w2 (node 1, ranks 2 to 3) is lost: "));
  EXPECT_THAT(Newest().reason(), EndsWith(lost));
  EXPECT_THAT(cluster_.warnings(), ElementsAre(EndsWith(lost)));
  Rejoin("w3", 1, 50);
  cluster_.Failed("w3", job_, "boom");
  EXPECT_EQ(Newest().reason(), "worker w3 (node 1, ranks 2 to 3): boom" + lost);
}

TEST_F(CoreReplaceTest, FollowersHearOfIt) {
  cluster_.JoinWorker("w3", 2);
  Train();
  const size_t before = cluster_.events().size();
  Lose("w2");
  ASSERT_GT(cluster_.events().size(), before);
  EXPECT_EQ(cluster_.events().back().status().replacements_size(), 1);
}

TEST_F(CoreReplaceTest, WhereTheStateOfLocalStepsDiesWithANodeStatusSaysSo) {
  for (const bool keeps_state : {true, false}) {
    proto::Job job = Job();
    job.mutable_consistency()->mutable_lazy()->set_local_steps(8);
    job.clear_optimizer();
    if (!keeps_state) job.mutable_optimizer()->mutable_sgd();
    Train(job);
    cluster_.Failed("w2", job_, "boom");
    const std::string lost =
        keeps_state ? "; its optimizer's state is lost, and begins with zeros" : "";
    EXPECT_EQ(Newest().reason(), "worker w2 (node 1, ranks 2 to 3): boom" + lost);
    Rejoin("w2", 1, 48);
    EXPECT_EQ(Newest().step(), 48u);
    EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
    for (const char* worker : {"w1", "w2"}) cluster_.Finished(worker, job_, 100);
    EXPECT_EQ(Status().state(), proto::FINISHED);
  }
}

TEST_F(CoreReplaceTest, WithoutReplaceTheJobFailsAsBefore) {
  cluster_.JoinWorker("w3", 2);
  proto::Job job = Job();
  job.clear_replace();
  Train(job);
  Lose("w2");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason().find("begun again"), std::string::npos);
}

TEST_F(CoreReplaceTest, BeforeItTrainsAndOnceItHasFinishedANodeIsNotReplaced) {
  cluster_.JoinWorker("w3", 2);
  job_ = cluster_.Submit(Job());
  cluster_.Failed("w2", job_, "no such program");
  EXPECT_EQ(Status().state(), proto::FAILED);
  Train();
  cluster_.Finished("w2", job_);
  Lose("w2");
  EXPECT_THAT(cluster_.Sent("w3"), IsEmpty());
  EXPECT_EQ(Status().replacements_size(), 0);
}

TEST_F(CoreReplaceTest, AProgramThatCannotBeginLaterOrKeepsStateIsRefused) {
  job_ = cluster_.Submit(Job());
  proto::NodeReady keeps_state = Layout(job_);
  keeps_state.set_ranks_keep_state(true);
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, keeps_state);
  EXPECT_THAT(Status().reason(), StartsWith("replace: the program's ranks keep state"));
  job_ = cluster_.Submit(Job());
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, job_);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), StartsWith("replace: the program does not say that it can go on"));
}

TEST_F(CoreReplaceTest, ANodeWhoseProcessDiesGoesOnAtItsOwnWorker) {
  cluster_.JoinWorker("w3", 2);
  Train();
  cluster_.Failed("w2", job_, "rank 3 (node 1, w2): killed by signal 9 (Killed)");
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StartNode 1"));
  EXPECT_THAT(cluster_.Sent("w3"), IsEmpty());
  EXPECT_EQ(Incarnation("w2"), 2u);
  Rejoin("w2", 1, 50);
  EXPECT_EQ(Newest().to(), "w2");
  EXPECT_THAT(Newest().reason(), EndsWith("signal 9 (Killed)")) << "fp32 leaves nothing out";
  EXPECT_EQ(Status().state(), proto::RUNNING);
}

TEST_F(CoreReplaceTest, ItsOwnWorkerComesBeforeAllOthers) {
  cluster_.JoinWorker("w3", 2);
  const uint32_t other = cluster_.Submit(CoreHarness::SomeJob(2));  // on w1
  job_ = cluster_.Submit(Job());
  for (const char* worker : {"w2", "w3"}) cluster_.Ready(worker, Layout(job_));
  cluster_.Installed("s1", job_);
  cluster_.Failed("w1", other, "boom");
  cluster_.Failed("w3", job_, "boom");
  EXPECT_EQ(Status().nodes(1).daemon(), "w3") << Status().reason();
}

TEST_F(CoreReplaceTest, AJobThatFailsTwiceAtOneStepIsItselfWrong) {
  Train();
  cluster_.Failed("w2", job_, "rank 3 (node 1, w2): division by zero");
  Rejoin("w2", 1, 50);
  cluster_.Failed("w2", job_, "rank 3 (node 1, w2): division by zero");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason(),
            "rank 3 (node 1, w2): division by zero; it was begun again before, and has come no "
            "further than step 50");
}

TEST_F(CoreReplaceTest, ANodeThatHasComeFurtherMayDieAgain) {
  Train();
  cluster_.Failed("w2", job_, "boom");
  Rejoin("w2", 1, 50);
  cluster_.SayActivity("w2", job_, 1, 51, 50);
  cluster_.Failed("w2", job_, "boom");
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_EQ(Incarnation("w2"), 3u);
}

TEST_F(CoreReplaceTest, AWorkerThatIsLostSaysNothingAboutTheJob) {
  cluster_.JoinWorker("w3", 2);
  Train();
  cluster_.Failed("w2", job_, "boom");
  Rejoin("w2", 1, 50);
  Lose("w2");
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_EQ(Incarnation("w3"), 3u);
}

TEST_F(CoreReplaceTest, WhereItCannotBeginAnotherWorkerIsTried) {
  cluster_.JoinWorker("w3", 2);
  cluster_.JoinWorker("w4", 2);
  Train();
  Lose("w2");
  cluster_.Failed("w3", job_, "node 1 (w3): no such program");
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("StartNode 1", "StopNode 1"));
  EXPECT_THAT(cluster_.Sent("w4"), ElementsAre("StartNode 1"));
  cluster_.Failed("w4", job_, "node 1 (w4): no such program");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), StartsWith("node 1 (w4): no such program; "));
}

TEST_F(CoreReplaceTest, WhereNoWorkerIsFreeTheNodeWaitsForOne) {
  cluster_.JoinWorker("w3", 1);
  Train();
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Seconds(30));
  EXPECT_EQ(Status().state(), proto::RUNNING);
  EXPECT_THAT(Status().reason(),
              StartsWith("node 1 (ranks 2 to 3) waits since 13:46:42 UTC for a worker with 2 free "
                         "slots: "));
  EXPECT_EQ(Status().nodes(1).daemon(), "");
  EXPECT_EQ(Newest().to(), "");
  cluster_.JoinWorker("w4", 2);
  EXPECT_THAT(cluster_.Sent("w4"), ElementsAre("Registered", "StartNode 1"));
  Rejoin("w4", 1, 50);
  EXPECT_EQ(Status().reason(), "");
  EXPECT_EQ(Newest().to(), "w4");
}

TEST_F(CoreReplaceTest, PatienceEnds) {
  Train();
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Seconds(61));
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), StartsWith("worker w2 (node 1, ranks 2 to 3) is lost: "));
  EXPECT_THAT(Status().reason(), HasSubstr("; for 1m no worker had room to begin the node again"));
}

TEST_F(CoreReplaceTest, ItWaitsBeforeJobsThatHaveNotBegun) {
  cluster_.JoinWorker("w3", 2);
  Train();
  proto::Job small = CoreHarness::SomeJob(1);
  const uint32_t first = cluster_.Submit(small);  // on w3
  Lose("w2");
  const uint32_t second = cluster_.Submit(small);
  EXPECT_EQ(cluster_.Status(second).reason(), "waits behind job 1") << "w3 has one slot";
  cluster_.Sent("w3");
  cluster_.Failed("w3", first, "boom");
  EXPECT_EQ(cluster_.Newest("w3", Message::kStartNode).start_node().record().job_id(), job_);
  EXPECT_EQ(cluster_.Status(second).state(), proto::QUEUED);
}

TEST_F(CoreReplaceTest, AWorkerThatDoesNotReachTheServersIsNoGood) {
  cluster_.SetReach("w3", "tcp://address-s1:5000", "refused");
  cluster_.JoinWorker("w3", 2);
  Train();
  Lose("w2");
  EXPECT_THAT(Status().reason(), HasSubstr("refused"));
  cluster_.SetReach("w3", "tcp://address-s1:5000", "");
  cluster_.Advance(absl::Seconds(5));
  EXPECT_THAT(cluster_.Sent("w3"), testing::Contains("StartNode 1"));
}

TEST_F(CoreReplaceTest, AWorkerPlaysNoSecondNodeOfTheJob) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  for (const char* worker : {"w1", "w2"}) cluster.JoinWorker(worker, 4);
  proto::Job job = Job();
  job.set_ranks_per_node(2);
  const uint32_t id = cluster.Submit(job);
  for (const char* worker : {"w1", "w2"}) cluster.Ready(worker, Layout(id));
  cluster.Installed("s1", id);
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster.Status(id).nodes(1).daemon(), "") << "w1 has room, but plays node 0";
  EXPECT_EQ(cluster.Status(id).state(), proto::RUNNING) << cluster.Status(id).reason();
}

TEST_F(CoreReplaceTest, OnGpusItTakesAWorkerThatHasSome) {
  CoreHarness cluster;
  cluster.JoinServer("s1", 1);
  for (const char* worker : {"w1", "w2", "w4"}) cluster.SetGpus(worker, 2);
  for (const char* worker : {"w1", "w2", "w3", "w4"}) cluster.JoinWorker(worker, 2);
  proto::Job job = Job();
  job.set_device(proto::Job::GPU);
  const uint32_t id = cluster.Submit(job);
  for (const char* worker : {"w1", "w2"}) cluster.Ready(worker, Layout(id));
  cluster.Installed("s1", id);
  cluster.Disconnect("w2");
  cluster.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster.Status(id).nodes(1).daemon(), "w4") << cluster.Status(id).reason();
}

TEST_F(CoreReplaceTest, OnlySoManyAreReplacedWithinAnHour) {
  Train();
  for (const uint64_t step : {50, 60}) {
    cluster_.Failed("w2", job_, "boom");
    Rejoin("w2", 1, step + 10);
  }
  cluster_.Failed("w1", job_, "boom");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason(),
            "worker w1 (node 0, ranks 0 to 1): boom; 2 nodes were begun again within an hour, and "
            "replace.per_hour allows no more");
}

TEST_F(CoreReplaceTest, AfterAnHourMoreAreReplaced) {
  Train();
  for (const uint64_t step : {50, 60, 70}) {
    cluster_.Failed("w2", job_, "boom");
    Rejoin("w2", 1, step + 10);
    cluster_.Advance(absl::Minutes(31));
  }
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_EQ(Status().replacements_size(), 3);
}

TEST_F(CoreReplaceTest, AHundredReplacementsAreKeptAndThoseOfTheLastHour) {
  proto::Job job = Job();
  job.mutable_replace()->set_per_hour(200);
  Train(job);
  cluster_.Failed("w1", job_, "boom");
  Rejoin("w1", 0, 50);
  const auto replace = [&](int count, absl::Duration between) {
    for (int i = 0; i < count; ++i) {
      cluster_.Failed("w2", job_, "boom");
      Rejoin("w2", 1, 60 + Incarnation("w2"));
      cluster_.Stall(between);
    }
  };
  replace(129, absl::Minutes(1));
  EXPECT_EQ(Status().replacements_size(), 100);
  EXPECT_EQ(Status().replacements(0).node(), 0u) << "the newest of its node";
  cluster_.SayActivity("w1", job_, 0, 51, 49);
  EXPECT_EQ(Status().replacements(0).step(), 49u);
  replace(110, absl::Milliseconds(1));
  EXPECT_GT(Status().replacements_size(), 111);
}

TEST_F(CoreReplaceTest, ThenItGoesOnFromItsCheckpointWhereItIsToDoSo) {
  proto::Job job = Job();
  job.mutable_replace()->set_per_hour(1);
  job.mutable_checkpoint()->set_dir("/c");
  job.mutable_checkpoint()->set_every_steps(10);
  job.mutable_restart()->set_attempts(3);
  job_ = cluster_.Submit(job);
  cluster_.Found(job_, CheckpointFound());
  LetTrain();
  cluster_.Failed("w2", job_, "boom");
  Rejoin("w2", 1, 50);
  cluster_.Failed("w1", job_, "boom");
  EXPECT_EQ(Status().state(), proto::QUEUED);
  EXPECT_EQ(Status().restarts_size(), 1);
  cluster_.Found(job_, absl::NotFoundError("none"));
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(Incarnation("w2"), 1u) << "the next attempt begins with new processes of all nodes";
  LetTrain();
  EXPECT_EQ(Status().nodes(1).incarnation(), 1u);
}

TEST_F(CoreReplaceTest, WhatTrainsSomethingElseFailsTheJobByName) {
  cluster_.JoinWorker("w3", 2);
  Train();
  Lose("w2");
  proto::NodeReady other = Layout(job_);
  other.mutable_layout()->mutable_segments(0)->set_name("v");
  cluster_.Ready("w3", other);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), StartsWith("node 1 (w3), which was begun again, does not train "
                                            "what the job does: tensor 0 is "));
}

TEST_F(CoreReplaceTest, StepsThatAreMadeAgainCountOnce) {
  Train();
  for (uint32_t rank = 0; rank < 4; ++rank) cluster_.Report(rank < 2 ? "w1" : "w2", job_, rank, 10);
  cluster_.Failed("w2", job_, "boom");
  cluster_.Report("w2", job_, 2, 20);  // of processes that are about to be gone
  EXPECT_EQ(Status().progress().samples(), 400u);
  Rejoin("w2", 1, 10);
  for (uint32_t rank : {2, 3}) cluster_.Report("w2", job_, rank, 10);
  EXPECT_EQ(Status().progress().samples(), 400u);
  for (uint32_t rank = 0; rank < 4; ++rank) cluster_.Report(rank < 2 ? "w1" : "w2", job_, rank, 20);
  EXPECT_EQ(Status().progress().samples(), 800u);
  EXPECT_EQ(Status().progress().step(), 20u);
}

TEST_F(CoreReplaceTest, WhereTheFirstNodeGoesTheMetricsGo) {
  cluster_.JoinWorker("w3", 2);
  Train();
  for (uint32_t rank = 0; rank < 4; ++rank) cluster_.Report(rank < 2 ? "w1" : "w2", job_, rank, 10);
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("JobMetrics 1"));
  Lose("w1");
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("StartNode 1"));
  proto::NodeReady ready = Layout(job_);
  ready.set_run_dir("/runs of w3");
  cluster_.Ready("w3", ready);
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("RunNode 1", "JobMetrics 1"));
  EXPECT_EQ(Status().run_dir(), "/runs of w3");
  EXPECT_EQ(cluster_.stored().at(job_).status().run_dir(), "/runs of w3");
  for (uint32_t rank = 0; rank < 4; ++rank) cluster_.Report(rank < 2 ? "w3" : "w2", job_, rank, 20);
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("JobMetrics 1"));
}

}  // namespace
}  // namespace strata::server

// Event-driven tests of nodes that die and are restarted while the job continues.
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Message = proto::CoordinatorMessage;

// A job whose nodes are replaced when they die. Node 0 is on w1 and node 1 on w2, with two ranks
// each; each of w3 and later could take one of them.
class ReplaceFixture : public ::testing::Test {
 protected:
  ReplaceFixture() {
    cluster_.JoinServer("s1", 1, {}, 0, "address-s1");
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(4);
    job.mutable_replace()->set_per_hour(2);
    job.mutable_replace()->set_patience_s(60);
    return job;
  }
  static proto::NodeReady Layout(uint32_t job) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_can_resume(true);
    return ready;
  }
  void Train(const proto::Job& job = Job()) {
    job_ = cluster_.Submit(job);
    LetTrain();
    for (const char* worker : {"w1", "w2"}) cluster_.SayActivity(worker, job_, NodeOf(worker), 50);
  }
  // From the start of its nodes.
  void LetTrain() {
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job_));
    cluster_.Installed("s1", job_);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << cluster_.Status(job_).reason();
    ForgetSent();
  }
  static uint32_t NodeOf(const std::string& worker) { return worker == "w1" ? 0 : 1; }
  void ForgetSent() {
    for (const char* daemon : {"w1", "w2", "w3", "w4"}) cluster_.Sent(daemon);
  }
  void Lose(const std::string& daemon) {
    cluster_.Disconnect(daemon);
    cluster_.Advance(absl::Seconds(3));
  }
  void Rejoin(const std::string& worker, uint32_t node, uint64_t step) {
    cluster_.Ready(worker, Layout(job_));
    cluster_.SayActivity(worker, job_, node, step, step);
  }
  uint32_t Incarnation(const std::string& worker) {
    return cluster_.Newest(worker, proto::CoordinatorMessage::kStartNode)
        .start_node()
        .incarnation();
  }
  proto::JobStatus Status() { return cluster_.Status(job_); }
  proto::ReplacementStatus Newest() {
    return Status().replacements(Status().replacements_size() - 1);
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

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

TEST_F(CoreReplaceTest, ANodeWhoseTrainingDivergesIsNotReplaced) {
  cluster_.JoinWorker("w3", 2);
  Train();
  cluster_.Failed("w2", job_, "rank 3 (node 1, w2): loss is NaN at step 7", /*has_diverged=*/true);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_TRUE(Status().has_diverged());
  EXPECT_EQ(Status().replacements_size(), 0);
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
  cluster_.Report("w2", job_, 2, 20);  // from processes that are about to exit
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

// ---- breaks, old news, restarts ----

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
  // Messages of a replaced worker are ignored, too.
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
  say(41, 41, false);  // from processes that are about to exit
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
  cluster_.Advance(absl::Seconds(20));  // longer than its patience since the loss
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

// ---- nodes that hang ----

class CoreHangTest : public ReplaceFixture {
 protected:
  static constexpr uint64_t kStep = 20;  // step at which rank 3 stops

  static proto::Job HangJob() {
    proto::Job job = Job();
    job.mutable_replace()->set_hang_after_s(60);
    return job;
  }
  // Every rank reports this step; rank 3, on the given worker, has been stopped for `stopped_s`.
  void Say(const std::string& worker, uint64_t step, int stopped_s, bool rejoined = false) {
    proto::DaemonMessage message;
    proto::NodeActivity* activity = message.mutable_heartbeat()->add_nodes();
    activity->set_job_id(job_);
    activity->set_incarnation(worker == "w1" ? 1 : Incarnation(worker));
    activity->set_node(worker == "w1" ? 0 : 1);
    activity->set_phase("training");
    activity->set_process_state("running");
    if (rejoined) activity->set_rejoined_step(kStep);
    const uint32_t first = worker == "w1" ? 0 : 2;
    for (uint32_t rank : {first, first + 1}) {
      proto::RankActivity* one = activity->add_ranks();
      one->set_rank(rank);
      one->set_chunks(10);
      one->set_process_state(stopped_s > 0 && rank == 3 ? "stopped by a signal" : "running");
      one->set_waiting(stopped_s > 0 && rank != 3);
      one->set_clock(one->waiting() ? step + 1 : step);
      one->set_idle_ms(stopped_s * 1000);
    }
    cluster_.Send(worker, message);
  }
  // Each step takes a second.
  void TrainUntilItStops(const proto::Job& job) {
    job_ = cluster_.Submit(job);
    LetTrain();
    for (uint64_t step = 0; step <= kStep; ++step) {
      for (const char* worker : {"w1", "w2"}) Say(worker, step, 0);
      cluster_.Advance(absl::Seconds(1));
    }
  }
  void StandStill(const std::string& worker, int from_s, int to_s, bool rejoined = false) {
    for (int second = from_s; second <= to_s; ++second) {
      Say("w1", kStep, second);
      Say(worker, kStep, second, rejoined);
      cluster_.Advance(absl::Seconds(1));
    }
  }
};

TEST_F(CoreHangTest, ANodeThatMakesNoProgressGoesOnAtAnotherWorker) {
  cluster_.JoinWorker("w3", 2);
  TrainUntilItStops(HangJob());
  StandStill("w2", 1, 58);
  EXPECT_THAT(cluster_.Sent("w3"), IsEmpty());
  EXPECT_THAT(cluster_.Sent("w2"), IsEmpty());
  StandStill("w2", 59, 61);
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("StartNode 1"));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty()) << "it trains on";
  EXPECT_EQ(Incarnation("w3"), 2u);
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_EQ(Newest().reason(),
            "node 1 (ranks 2 to 3) made no progress for 60 s: all waited for its rank 3 at step "
            "20: stopped by a signal");
  // Processes that are about to exit still send messages.
  cluster_.SetIncarnation("w2", job_, 1);
  cluster_.Failed("w2", job_, "late");
  Rejoin("w3", 1, kStep);
  EXPECT_EQ(Status().reason(), "");
  EXPECT_EQ(Newest().step(), kStep);
}

TEST_F(CoreHangTest, WhereThereIsNoOtherWorkerItGoesOnAtItsOwn) {
  TrainUntilItStops(HangJob());
  StandStill("w2", 1, 61);
  EXPECT_THAT(cluster_.Sent("w2"), Contains("StartNode 1"));
  EXPECT_EQ(Incarnation("w2"), 2u);
  EXPECT_EQ(Newest().to(), "w2");
}

TEST_F(CoreHangTest, ANodeThatHangsTwiceAtOneStepFailsTheJob) {
  cluster_.JoinWorker("w3", 2);
  TrainUntilItStops(HangJob());
  StandStill("w2", 1, 61);
  Rejoin("w3", 1, kStep);
  StandStill("w3", 1, 58, /*rejoined=*/true);
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  StandStill("w3", 59, 61, /*rejoined=*/true);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason(),
            "node 1 (ranks 2 to 3) made no progress for 60 s: all waited for its rank 3 at step "
            "20: stopped by a signal; it was begun again before, and has come no further than "
            "step 21");
}

TEST_F(CoreHangTest, ANodeThatHangsWhereItDiedBeforeFailsTheJob) {
  TrainUntilItStops(HangJob());
  Say("w2", kStep, 1);
  cluster_.Failed("w2", job_, "boom");
  Rejoin("w2", 1, kStep);
  StandStill("w2", 1, 61, /*rejoined=*/true);
  EXPECT_EQ(Status().state(), proto::FAILED);
}

TEST_F(CoreHangTest, WithoutReplaceOrWithZeroNobodyIs) {
  cluster_.JoinWorker("w3", 2);
  proto::Job job = HangJob();
  job.mutable_replace()->set_hang_after_s(0);
  TrainUntilItStops(job);
  StandStill("w2", 1, 200);
  EXPECT_EQ(Status().replacements_size(), 0);
  EXPECT_EQ(Status().waits_size(), 1);
  ASSERT_TRUE(cluster_.core().Cancel(JobId(job_), cluster_.now()).ok());
  job.clear_replace();
  TrainUntilItStops(job);
  StandStill("w2", 1, 200);
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
}

TEST_F(CoreHangTest, WhatTheCoordinatorSleptThroughIsJudgedByWhatIsSaidThen) {
  cluster_.JoinWorker("w3", 2);
  TrainUntilItStops(HangJob());
  cluster_.Stall(absl::Minutes(10));
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(Status().replacements_size(), 0);
  StandStill("w2", 1, 58);
  EXPECT_EQ(Status().replacements_size(), 0);
}

}  // namespace

}  // namespace strata::server

// Event-driven tests of all-reduces that lose nodes and continue.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// A job whose four nodes, of one rank each, all-reduce among themselves and continue without nodes
// that die: node 0 is on w1, node 3 on w4.
class DropFixture : public ::testing::Test {
 protected:
  using Message = proto::CoordinatorMessage;

  DropFixture() {
    for (const std::string& worker : Workers()) {
      cluster_.SetGpus(worker, 1);
      cluster_.JoinWorker(worker, 1);
    }
  }
  static std::vector<std::string> Workers() { return {"w1", "w2", "w3", "w4"}; }
  // An NCCL id from the worker's first rank.
  static std::string SomeId(const std::string& worker) { return std::string(128, worker[1]); }
  static uint32_t NodeOf(const std::string& worker) {
    return static_cast<uint32_t>(worker[1] - '1');
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_ranks_per_node(1);
    job.set_exchange(proto::Job::RING);
    job.set_on_loss(proto::Job::DROP);
    job.mutable_all_reduce()->set_algorithm(proto::AllReduce::RING);
    return job;
  }
  // The same job with ranks that all-reduce on their GPUs.
  static proto::Job OnGpus() {
    proto::Job job = Job();
    job.clear_all_reduce();
    job.set_exchange(proto::Job::NCCL);
    job.set_device(proto::Job::GPU);
    return job;
  }
  void Begin(const proto::Job& job = Job()) { job_ = cluster_.Submit(job); }
  void BeReady(const std::string& worker) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_endpoint(absl::StrCat("tcp://", worker));
    ready.set_run_dir(absl::StrCat("/runs/", worker));
    ready.set_nccl_id(SomeId(worker));
    cluster_.Ready(worker, ready);
  }
  void Train(const proto::Job& job = Job()) {
    Begin(job);
    for (const std::string& worker : Workers()) BeReady(worker);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << Status().reason();
    ForgetSent();
  }
  void ForgetSent() {
    for (const std::string& worker : Workers()) cluster_.Sent(worker);
  }
  // A process of the worker's node was killed.
  void Die(const std::string& worker) {
    proto::DaemonMessage message;
    message.mutable_node_failed()->set_job_id(job_);
    message.mutable_node_failed()->set_incarnation(1);
    message.mutable_node_failed()->set_reason("rank killed by signal 9");
    message.mutable_node_failed()->set_is_death(true);
    cluster_.Send(worker, message);
  }
  // The number of the question that the node was last asked.
  uint32_t Asked(const std::string& worker) {
    return cluster_.Newest(worker, Message::kStopRing).stop_ring().number();
  }
  proto::RingStopped Answer(const std::string& worker, uint64_t clock) {
    proto::RingStopped stopped;
    stopped.set_job_id(job_);
    stopped.set_node(NodeOf(worker));
    stopped.set_number(Asked(worker));
    stopped.set_clock(clock);
    stopped.set_from_clock(clock + 2);
    stopped.set_incarnation(1);
    return stopped;
  }
  void Say(const std::string& worker, const proto::RingStopped& stopped) {
    proto::DaemonMessage message;
    *message.mutable_ring_stopped() = stopped;
    cluster_.Send(worker, message);
  }
  void Stop(const std::string& worker, uint64_t clock) { Say(worker, Answer(worker, clock)); }
  // The ring that the worker's node was last told to form; number 0: none.
  proto::FormRing Formed(const std::string& worker) {
    return cluster_.Newest(worker, Message::kFormRing).form_ring();
  }
  uint32_t FormedNumber(const std::string& worker) { return Formed(worker).change().number(); }
  void Lose(const std::string& worker) {
    cluster_.Disconnect(worker);
    cluster_.Advance(absl::Seconds(3));
  }
  proto::JobStatus Status() { return cluster_.Status(job_); }
  const proto::StoredJob& Stored() { return cluster_.stored().at(job_); }
  const proto::JobRecord& Record() { return Stored().record(); }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

using CoreDropTest = DropFixture;

TEST_F(CoreDropTest, TheOthersStopAndFormARingWithoutTheNodeThatDied) {
  Train();
  Die("w2");
  EXPECT_EQ(Stored().view_proposed(), 2u) << "saved before it is said";
  EXPECT_TRUE(Stored().status().nodes(1).absent());
  for (const char* worker : {"w1", "w3", "w4"}) {
    EXPECT_THAT(cluster_.Sent(worker), ElementsAre("StopRing 1 2"));
  }
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StopNode 1"));
  EXPECT_EQ(Status().reason(),
            "node 1 is left out: worker w2 (node 1, rank 1): rank killed by signal 9; the others "
            "form a ring of 3 nodes");
  Stop("w1", 10);
  Stop("w3", 9);
  EXPECT_EQ(FormedNumber("w1"), 0u) << "not all have answered";
  Stop("w4", 10);

  const proto::FormRing formed = Formed("w1");
  EXPECT_EQ(formed.job_id(), job_);
  EXPECT_EQ(formed.clock(), 10u);
  EXPECT_TRUE(formed.some_lack());
  EXPECT_FALSE(formed.is_over());
  EXPECT_THAT(formed.nodes(), ElementsAre(0, 2, 3));
  EXPECT_EQ(formed.change().job_id(), job_);
  EXPECT_EQ(formed.change().number(), 2u);
  EXPECT_EQ(formed.change().at_clock(), 12u);
  EXPECT_THAT(formed.change().left(), ElementsAre(1));
  for (const char* worker : {"w1", "w3", "w4"}) {
    EXPECT_THAT(cluster_.Sent(worker), ElementsAre("FormRing 1 2"));
  }
  EXPECT_THAT(cluster_.Sent("w2"), IsEmpty());
  ASSERT_EQ(Record().view_changes_size(), 1);
  EXPECT_EQ(Record().view_changes(0).SerializeAsString(), formed.change().SerializeAsString());
  EXPECT_EQ(Stored().ring().SerializeAsString(), formed.SerializeAsString());
  EXPECT_EQ(Stored().view_told(), 2u);

  const proto::JobStatus status = Status();
  EXPECT_EQ(status.reason(), "");
  EXPECT_EQ(status.ranks(), 3u);
  EXPECT_EQ(status.nodes_size(), 3);
  ASSERT_EQ(status.nodes_changes_size(), 1);
  EXPECT_EQ(status.nodes_changes(0).step(), 12u);
  EXPECT_EQ(status.nodes_changes(0).ranks(), 3u);
  EXPECT_THAT(status.nodes_changes(0).left(), ElementsAre(1));
  EXPECT_THAT(status.nodes_changes(0).reason(), HasSubstr("rank killed by signal 9"));
  for (const char* worker : {"w1", "w3", "w4"}) cluster_.Finished(worker, job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED) << Status().reason();
}

TEST_F(CoreDropTest, AWorkerThatIsGoneIsTheDeathOfItsNodeAndItsSlotsAreNobodys) {
  Train();
  Lose("w4");
  EXPECT_THAT(Status().reason(), StartsWith("node 3 is left out: worker w4 (node 3, rank 3) is "
                                            "lost: "));
  for (const char* worker : {"w1", "w2", "w3"}) Stop(worker, 10);
  EXPECT_FALSE(Formed("w1").some_lack());
  cluster_.JoinWorker("w4", 1, {job_});
  EXPECT_THAT(cluster_.Sent("w4"), Contains("StopNode 1"));
  cluster_.Advance(absl::Seconds(5));
  EXPECT_THAT(cluster_.Sent("w4"), Not(Contains("StartNode 1"))) << "no node joins a ring";
  EXPECT_EQ(Status().ranks(), 3u);
}

TEST_F(CoreDropTest, WhereTheFirstNodeDiesTheNextOneWritesForAll) {
  Train();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster_.Report(Workers()[rank], job_, rank, 10);
  }
  EXPECT_THAT(cluster_.Sent("w1"), Contains("JobMetrics 1"));
  Die("w1");
  EXPECT_EQ(Status().run_dir(), "/runs/w2");
  EXPECT_THAT(cluster_.Sent("w2"), Not(Contains("JobMetrics 1")));
  for (const char* worker : {"w2", "w3", "w4"}) Stop(worker, 10);
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("FormRing 1 2", "JobMetrics 1"));
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("JobMetrics 1")));
  // Nobody waits for reports of rank 0.
  for (uint32_t rank = 1; rank < 4; ++rank) {
    cluster_.Report(Workers()[rank], job_, rank, 20);
  }
  EXPECT_THAT(cluster_.Sent("w2"), Contains("JobMetrics 1"));
  EXPECT_EQ(Status().progress().step(), 20u);
}

TEST_F(CoreDropTest, TwoThatDieAtOnceLeaveWithOneChange) {
  Train();
  Die("w2");
  Die("w3");
  EXPECT_EQ(Asked("w1"), 3u);
  EXPECT_THAT(Status().reason(), StartsWith("nodes 1, 2 are left out: "));
  EXPECT_THAT(Status().reason(), HasSubstr("form a ring of 2 nodes"));
  for (const char* worker : {"w1", "w4"}) Stop(worker, 10);
  EXPECT_THAT(Formed("w1").change().left(), ElementsAre(1, 2));
  EXPECT_THAT(Formed("w1").nodes(), ElementsAre(0, 3));
  EXPECT_EQ(Record().view_changes_size(), 1);
  EXPECT_EQ(Status().ranks(), 2u);
}

TEST_F(CoreDropTest, WhereANodeDiesMeanwhileAllAreAskedAgain) {
  Train();
  Die("w2");
  proto::RingStopped late = Answer("w4", 10);
  Stop("w1", 10);
  Stop("w3", 10);
  Die("w3");
  Say("w4", late);
  EXPECT_EQ(FormedNumber("w1"), 0u) << "that one was about another ring";
  Stop("w4", 10);
  EXPECT_EQ(FormedNumber("w1"), 0u) << "w1 has not stopped for this one";
  Stop("w1", 11);
  EXPECT_EQ(FormedNumber("w1"), 3u);
  EXPECT_EQ(Formed("w1").clock(), 11u);
  EXPECT_THAT(Formed("w4").change().left(), ElementsAre(1, 2));
}

TEST_F(CoreDropTest, TheNextDeathIsAChangeOfItsOwn) {
  Train();
  Die("w2");
  for (const char* worker : {"w1", "w3", "w4"}) Stop(worker, 10);
  Die("w3");
  for (const char* worker : {"w1", "w4"}) Stop(worker, 10);
  ASSERT_EQ(Record().view_changes_size(), 2);
  EXPECT_EQ(Record().view_changes(1).number(), 3u);
  EXPECT_EQ(Record().view_changes(1).at_clock(), 13u) << "after that of the change before";
  EXPECT_THAT(Record().view_changes(1).left(), ElementsAre(2));
  EXPECT_THAT(Status().nodes_changes(1).reason(), StartsWith("worker w3 ("));
  Die("w4");
  EXPECT_EQ(Status().reason(),
            "node 3 is left out: worker w4 (node 3, rank 3): rank killed by signal 9; the others "
            "form a ring of 1 node");
  Stop("w1", 10);
  EXPECT_THAT(Formed("w1").nodes(), ElementsAre(0));
  cluster_.Finished("w1", job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED);
}

TEST_F(CoreDropTest, OnceANodeHasFinishedTheOthersDoSo) {
  Train();
  cluster_.Finished("w1", job_, 100);
  Die("w2");
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty()) << "it has nothing to say any more";
  Stop("w3", 100);
  Stop("w4", 100);
  EXPECT_TRUE(Formed("w3").is_over());
  EXPECT_THAT(Formed("w3").nodes(), ElementsAre(2, 3));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  for (const char* worker : {"w3", "w4"}) cluster_.Finished(worker, job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED) << Status().reason();
}

TEST_F(CoreDropTest, ANodeThatFinishesMeanwhileAnswersByThat) {
  Train();
  Die("w2");
  Stop("w1", 100);
  Stop("w3", 100);
  cluster_.Finished("w4", job_, 100);
  EXPECT_TRUE(Formed("w1").is_over());
  EXPECT_THAT(Formed("w1").nodes(), ElementsAre(0, 2));
}

TEST_F(CoreDropTest, OfNodesThatMakeOtherStepsThanOneThatHasFinishedTheJobFails) {
  Train();
  cluster_.Finished("w1", job_, 100);
  Die("w2");
  Stop("w3", 100);
  Stop("w4", 99);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("node 2 has made 100 steps and node 3 99"));
}

TEST_F(CoreDropTest, WhereAllOthersHaveFinishedSoDoesTheJobUnlessTheFirstNodeDied) {
  Train();
  for (const char* worker : {"w1", "w2", "w4"}) cluster_.Finished(worker, job_, 100);
  Die("w3");
  EXPECT_EQ(Status().state(), proto::FINISHED);
  Train();
  for (const char* worker : {"w2", "w3", "w4"}) cluster_.Finished(worker, job_, 100);
  Lose("w1");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("all other nodes have finished"));
}

TEST_F(CoreDropTest, WithLessRanksThanItNeedsTheJobFails) {
  proto::Job job = Job();
  job.set_ranks_min(3);
  Train(job);
  Die("w2");
  EXPECT_EQ(Status().state(), proto::RUNNING);
  Die("w4");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason(),
            "worker w4 (node 3, rank 3): rank killed by signal 9; 2 ranks would be left, and the "
            "job goes on with no less than ranks_min: 3");
  EXPECT_THAT(cluster_.Sent("w1"), Contains("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("w4"), Contains("StopNode 1"));
}

TEST_F(CoreDropTest, AnErrorIsNoDeathAndFailsTheJob) {
  Train();
  cluster_.Failed("w2", job_, "rank 1: loss is NaN at step 7");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("loss is NaN"));
}

TEST_F(CoreDropTest, BeforeItTrainsADeathFailsTheJob) {
  Begin();
  BeReady("w1");
  Die("w2");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("signal 9"));
}

TEST_F(CoreDropTest, ANodeThatCannotGoOnFailsTheJob) {
  Train();
  Die("w2");
  proto::RingStopped stopped = Answer("w3", 0);
  stopped.set_error("it has no weights yet");
  Say("w3", stopped);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason(),
            "worker w2 (node 1, rank 1): rank killed by signal 9; worker w3 (node 2, rank 2) does "
            "not go on: it has no weights yet");
}

TEST_F(CoreDropTest, ClocksThatNoAllReduceLeavesFailTheJob) {
  Train();
  Die("w2");
  Stop("w1", 12);
  Stop("w3", 10);
  Stop("w4", 12);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("node 0 has made 12 steps and node 2 10"));
  EXPECT_EQ(FormedNumber("w1"), 0u);
}

TEST_F(CoreDropTest, RanksMeetAgainByTheIdOfTheFirstNodeThatIsLeft) {
  Train(OnGpus());
  EXPECT_EQ(Record().nccl_id(), SomeId("w1"));
  Die("w1");
  for (const char* worker : {"w3", "w2", "w4"}) {
    proto::RingStopped stopped = Answer(worker, 10);
    stopped.set_nccl_id(SomeId(worker));
    Say(worker, stopped);
  }
  for (const char* worker : {"w2", "w3", "w4"}) {
    EXPECT_EQ(Formed(worker).nccl_id(), SomeId("w2"));
    EXPECT_THAT(Formed(worker).nodes(), ElementsAre(1, 2, 3));
  }
}

TEST_F(CoreDropTest, WithoutAnIdRanksCannotMeetAgain) {
  Train(OnGpus());
  Die("w1");
  for (const char* worker : {"w2", "w3", "w4"}) Stop(worker, 10);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason(),
            "worker w1 (node 0, rank 0): rank killed by signal 9; node 1 (w2) gives an id of 0 "
            "bytes for NCCL's ranks to meet by, not 128");
}

TEST_F(CoreDropTest, RanksThatHaveMadeAllStepsNeedNotMeetAgain) {
  Train(OnGpus());
  cluster_.Finished("w1", job_, 100);
  Die("w2");
  for (const char* worker : {"w3", "w4"}) Stop(worker, 100);
  EXPECT_TRUE(Formed("w3").is_over());
  for (const char* worker : {"w3", "w4"}) cluster_.Finished(worker, job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED) << Status().reason();
}

TEST_F(CoreDropTest, AProgramNeedNotBeAbleToBeginLater) {
  Begin();
  for (const std::string& worker : Workers()) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_endpoint("tcp://w");
    ready.set_can_resume(false);
    ready.set_ranks_keep_state(true);
    cluster_.Ready(worker, ready);
  }
  EXPECT_TRUE(Stored().training()) << Status().reason();
}

TEST_F(CoreDropTest, ANodeOfADrainedWorkerStaysAndThatIsSaid) {
  Train();
  const absl::StatusOr<proto::DrainReply> reply = cluster_.Drain("w2");
  ASSERT_TRUE(reply.ok());
  cluster_.Advance(absl::Seconds(2));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  ASSERT_EQ(reply->jobs_size(), 1);
  EXPECT_EQ(reply->jobs(0).stays(),
            "node 1 stays to its end: it leaves the others' ring only where it dies (on_loss)");
}

TEST_F(CoreDropTest, NobodyIsSaidToHoldTheJobUpMeanwhile) {
  Train();
  const auto tell = [this] {
    for (const char* worker : {"w1", "w3", "w4"}) {
      proto::DaemonMessage message;
      proto::NodeActivity* const node = message.mutable_heartbeat()->add_nodes();
      node->set_job_id(job_);
      node->set_node(NodeOf(worker));
      node->set_incarnation(1);
      node->set_phase("training");
      node->set_process_state("running");
      proto::RankActivity* const rank = node->add_ranks();
      rank->set_rank(NodeOf(worker));
      rank->set_idle_ms(8000);
      rank->set_process_state("stopped by a signal");
      cluster_.Send(worker, message);
    }
    cluster_.Advance(absl::Seconds(1));
  };
  tell();
  EXPECT_FALSE(Status().waits().empty());
  Die("w2");
  tell();
  EXPECT_TRUE(Status().waits().empty());
}

// ---- breaks and restarts ----

class CoreDropBreakTest : public DropFixture {
 protected:
  void Restart() {
    ForgetSent();
    cluster_.Restart();
  }
  void ComeBack(const std::string& worker) { cluster_.JoinWorker(worker, 1, {job_}); }
};

TEST_F(CoreDropBreakTest, WhatWasBeingAskedIsAskedAnewAfterARestart) {
  Train();
  Die("w2");
  Stop("w1", 10);
  const proto::RingStopped late = Answer("w3", 10);
  Restart();
  for (const char* worker : {"w1", "w3", "w4"}) ComeBack(worker);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(cluster_.Sent("w1"), Contains("StopRing 1 3"));
  EXPECT_THAT(cluster_.Sent("w1"), Not(Contains("ChangeView 1")));
  EXPECT_THAT(Status().reason(), HasSubstr("rank killed by signal 9"));
  Say("w3", late);
  Stop("w1", 10);
  Stop("w4", 10);
  EXPECT_EQ(FormedNumber("w1"), 0u) << "w3 has spoken of the ring before";
  Stop("w3", 9);
  EXPECT_EQ(FormedNumber("w1"), 3u);
  EXPECT_THAT(Formed("w1").change().left(), ElementsAre(1));
  EXPECT_THAT(Status().nodes_changes(0).reason(), HasSubstr("rank killed by signal 9"));
}

TEST_F(CoreDropBreakTest, WhatWasDecidedIsToldAgainAfterARestart) {
  Train();
  Die("w2");
  for (const char* worker : {"w1", "w3", "w4"}) Stop(worker, 10);
  const std::string formed = Formed("w1").SerializeAsString();
  Restart();
  for (const char* worker : {"w1", "w3", "w4"}) ComeBack(worker);
  cluster_.Advance(absl::Seconds(2));
  EXPECT_THAT(cluster_.Sent("w1"), Contains("FormRing 1 2"));
  EXPECT_EQ(Formed("w1").SerializeAsString(), formed);
  EXPECT_EQ(Stored().view_proposed(), 2u) << "nobody is asked anything";
  EXPECT_EQ(Status().ranks(), 3u);
  // Nobody waits for the dead node's known steps.
  for (const uint32_t rank : {0, 2, 3}) cluster_.Report(Workers()[rank], job_, rank, 30);
  EXPECT_THAT(cluster_.Sent("w1"), Contains("JobMetrics 1"));
  EXPECT_EQ(Status().progress().step(), 30u);
  for (const char* worker : {"w1", "w3", "w4"}) cluster_.Finished(worker, job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED) << Status().reason();
}

TEST_F(CoreDropBreakTest, AWorkerThatDoesNotComeBackAfterARestartIsADeath) {
  Train();
  Restart();
  for (const char* worker : {"w1", "w2", "w4"}) ComeBack(worker);
  cluster_.Advance(absl::Seconds(31));
  EXPECT_THAT(Status().reason(), HasSubstr("worker w3 (node 2, rank 2) did not come back"));
  for (const char* worker : {"w1", "w2", "w4"}) Stop(worker, 10);
  EXPECT_THAT(Formed("w1").change().left(), ElementsAre(2));
}

TEST_F(CoreDropBreakTest, AWorkerThatComesBackLateHasTimeToAnswer) {
  Train();
  Die("w2");
  Restart();
  for (const char* worker : {"w1", "w3"}) ComeBack(worker);
  cluster_.Advance(absl::Seconds(25));
  for (const char* worker : {"w1", "w3"}) Stop(worker, 10);
  ComeBack("w4");
  EXPECT_THAT(cluster_.Sent("w4"), Contains("StopRing 1 3"));
  cluster_.Advance(absl::Seconds(20));
  EXPECT_EQ(FormedNumber("w1"), 0u);
  Stop("w4", 10);
  EXPECT_THAT(Formed("w1").nodes(), ElementsAre(0, 2, 3));
}

TEST_F(CoreDropBreakTest, AWorkerThatIsBackIsToldTheRingAndWhatIsAsked) {
  Train();
  Die("w2");
  for (const char* worker : {"w1", "w3", "w4"}) Stop(worker, 10);
  cluster_.Disconnect("w4");
  Die("w3");
  cluster_.Sent("w4");
  ComeBack("w4");
  EXPECT_THAT(cluster_.Sent("w4"),
              ElementsAre("Registered", "RunNode 1", "FormRing 1 2", "StopRing 1 3"));
}

TEST_F(CoreDropBreakTest, ThoseThatDoNotAnswerAreAskedEachSecond) {
  Train();
  Die("w2");
  Stop("w1", 10);
  ForgetSent();
  cluster_.Advance(absl::Seconds(3));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("StopRing 1 2", "StopRing 1 2", "StopRing 1 2"));
}

TEST_F(CoreDropBreakTest, ANodeThatNeverAnswersIsLostToo) {
  Train();
  Die("w2");
  Stop("w1", 10);
  Stop("w3", 10);
  cluster_.Advance(absl::Seconds(29));
  EXPECT_EQ(Asked("w1"), 2u);
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(Asked("w1"), 3u);
  EXPECT_THAT(cluster_.Sent("w4"), Contains("StopNode 1"));
  for (const char* worker : {"w1", "w3"}) Stop(worker, 10);
  EXPECT_THAT(Formed("w1").change().left(), ElementsAre(1, 3));
  EXPECT_THAT(Status().nodes_changes(0).reason(),
              HasSubstr("worker w4 (node 3, rank 3) has not stopped its all-reduce within 30s"));
}

TEST_F(CoreDropBreakTest, WhereNobodyAnswersTheJobFails) {
  Train();
  Die("w2");
  cluster_.Advance(absl::Seconds(31));
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("has not stopped its all-reduce"));
  EXPECT_THAT(Status().reason(), HasSubstr("0 ranks would be left"));
}

TEST_F(CoreDropBreakTest, ACoordinatorThatStoodStillBlamesNobody) {
  Train();
  Die("w2");
  cluster_.Stall(absl::Seconds(60));
  EXPECT_EQ(Asked("w1"), 2u);
  for (const char* worker : {"w1", "w3", "w4"}) Stop(worker, 10);
  EXPECT_EQ(FormedNumber("w1"), 2u);
}

TEST_F(CoreDropBreakTest, WordsOfOthersOfTheDeadAndOfAnotherNodeAreNotHeard) {
  Train();
  Die("w2");
  Stop("w1", 10);
  Stop("w3", 10);
  proto::RingStopped foreign = Answer("w4", 10);
  Say("w3", foreign);
  Say("w2", foreign);
  cluster_.JoinWorker("w5", 1);
  Say("w5", foreign);
  foreign.set_attempt(1);
  Say("w4", foreign);
  foreign.set_attempt(0);
  foreign.set_incarnation(2);
  Say("w4", foreign);
  proto::RingStopped of_dead = Answer("w4", 10);
  of_dead.set_node(1);
  Say("w2", of_dead);
  Die("w2");
  EXPECT_EQ(FormedNumber("w1"), 0u);
  EXPECT_EQ(Asked("w1"), 2u);
  Stop("w4", 10);
  EXPECT_EQ(FormedNumber("w1"), 2u);
  ForgetSent();
  Stop("w4", 77);
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  EXPECT_EQ(Record().view_changes_size(), 1);
}

TEST_F(CoreDropBreakTest, WhatCannotBeSavedIsNotSaid) {
  Train();
  cluster_.FailNextPersist();
  Die("w2");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(cluster_.Sent("w1"), Not(Contains("StopRing 1 2")));
}

TEST_F(CoreDropBreakTest, ARingThatCannotBeSavedIsNotFormed) {
  Train();
  Die("w2");
  Stop("w1", 10);
  Stop("w3", 10);
  cluster_.FailNextPersist();
  Stop("w4", 10);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(FormedNumber("w1"), 0u);
}

}  // namespace

}  // namespace strata::server

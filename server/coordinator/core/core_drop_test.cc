// All-reduces that lose nodes and go on, by events.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/drop_fixture.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

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
  // Nobody waits for what rank 0 would have said.
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

}  // namespace
}  // namespace strata::server

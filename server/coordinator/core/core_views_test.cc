// Nodes that join a job while it trains, and leave it, by events.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/elastic_fixture.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using CoreViewsTest = ElasticFixture;

TEST_F(CoreViewsTest, AllPlacesAreLaidOutWhenTheJobBegins) {
  Train();
  ASSERT_EQ(Record().view().nodes_size(), 4);
  EXPECT_FALSE(Record().view().nodes(1).absent());
  EXPECT_TRUE(Record().view().nodes(2).absent());
  EXPECT_EQ(Record().view().nodes(3).first_rank(), 3u);
  EXPECT_EQ(Status().ranks(), 2u);
}

TEST_F(CoreViewsTest, ANodeJoinsWhereAWorkerHasRoom) {
  Train();
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(cluster_.Newest("w3", Message::kStartNode).start_node().node(), 2u);
  EXPECT_TRUE(Stored().nodes(2).joins());
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty()) << "its processes begin first";

  cluster_.Ready("w3", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("ProposeView 1"));
  EXPECT_EQ(cluster_.stored().at(job_).view_proposed(), Asked("w1")) << "saved before it is said";
  Promise("w1", 0, 38);
  EXPECT_EQ(Record().view_changes_size(), 0);
  EXPECT_THAT(cluster_.Sent("s1"), Not(Contains("ChangeView 1")));
  Promise("w2", 1, 40);

  ASSERT_EQ(Record().view_changes_size(), 1) << "saved before it is said";
  EXPECT_EQ(Record().view_changes(0).at_clock(), 40u);
  EXPECT_THAT(Record().view_changes(0).joined(), ElementsAre(2));
  EXPECT_THAT(cluster_.Sent("s1"), Contains("ChangeView 1"));
  InstallChange("s1");
  EXPECT_THAT(cluster_.Sent("w1"), Not(Contains("ChangeView 1"))) << "not all servers have it";
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("RunNode 1")));
  InstallChange("s2");
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("ChangeView 1"));
  EXPECT_THAT(cluster_.Sent("w2"), Contains("ChangeView 1"));
  EXPECT_THAT(cluster_.Sent("w3"), ElementsAre("RunNode 1"));
  EXPECT_EQ(cluster_.Newest("w3", Message::kRunNode).run_node().record().view_changes(0).at_clock(),
            40u);

  EXPECT_EQ(Status().ranks(), 3u);
  EXPECT_FALSE(Stored().nodes(2).joins());
  ASSERT_EQ(Status().nodes_changes_size(), 1);
  EXPECT_EQ(Status().nodes_changes(0).step(), 40u);
  EXPECT_EQ(Status().nodes_changes(0).ranks(), 3u);
  for (const char* worker : {"w1", "w2", "w3"}) cluster_.Finished(worker, job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED);
}

TEST_F(CoreViewsTest, AtMostAsManyJoinAsTheJobTakes) {
  Train();
  for (const char* worker : {"w3", "w4", "w5"}) cluster_.JoinWorker(worker, 1);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(cluster_.Sent("w4"), Contains("StartNode 1"));
  EXPECT_THAT(cluster_.Sent("w5"), Not(Contains("StartNode 1")));
}

TEST_F(CoreViewsTest, JobsInTheQueueComeBeforeNodesThatCouldJoin) {
  Train();
  const uint32_t second = cluster_.Submit(CoreHarness::SomeJob(2));
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("StartNode 1"))) << "the second job waits for two";
  ASSERT_TRUE(cluster_.core().Cancel(JobId(second), cluster_.now()).ok());
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(cluster_.Sent("w3"), Contains("StartNode 1"));
}

TEST_F(CoreViewsTest, ANodeLeavesAWorkerThatIsDrained) {
  Train();
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("ProposeView 1"));
  Promise("w1", 0, 20);
  Promise("w2", 1, 24);
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  EXPECT_EQ(Stored().nodes(1).leaves_at(), 24u);
  EXPECT_EQ(Status().ranks(), 1u);
  EXPECT_EQ(Status().nodes_changes(0).reason(), "worker w2 is being drained");
  EXPECT_THAT(ChangeTold("w1").left(), ElementsAre(1));
  EXPECT_FALSE(cluster_.Drain("w2", proto::DrainRequest::TELL)->drained());
  cluster_.Finished("w2", job_, 24);
  EXPECT_TRUE(Stored().nodes(1).absent());
  EXPECT_TRUE(cluster_.Drain("w2", proto::DrainRequest::TELL)->drained());
  EXPECT_EQ(Status().state(), proto::RUNNING);
  cluster_.Finished("w1", job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED);
}

TEST_F(CoreViewsTest, ALeaverThatMakesOtherStepsThanItWasToFailsTheJob) {
  Train();
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Promise("w1", 0, 20);
  Promise("w2", 1, 24);
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  cluster_.Finished("w2", job_, 23);
  cluster_.Finished("w1", job_, 100);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("rank 1 (node 1, w2) after 23"));
}

TEST_F(CoreViewsTest, NoLessStayThanTheJobNeeds) {
  proto::Job job = Job();
  job.set_ranks_min(2);
  Train(job);
  const absl::StatusOr<proto::DrainReply> reply = cluster_.Drain("w2");
  ASSERT_TRUE(reply.ok());
  EXPECT_THAT(cluster_.Sent("w2"), IsEmpty());
  ASSERT_EQ(reply->jobs_size(), 1);
  EXPECT_THAT(reply->jobs(0).stays(), HasSubstr("node 1 stays until another one has joined"));
  EXPECT_THAT(reply->jobs(0).stays(), HasSubstr("ranks_min: 2"));
  // Another one joins, and both happen with one step.
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  ASSERT_EQ(Record().view_changes_size(), 1);
  EXPECT_THAT(Record().view_changes(0).joined(), ElementsAre(2));
  EXPECT_THAT(Record().view_changes(0).left(), ElementsAre(1));
}

TEST_F(CoreViewsTest, WhereWhoWasToJoinDiesNoOtherNodeLeavesInItsPlace) {
  proto::Job job = Job();
  job.set_ranks_min(2);
  Train(job);
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Join("w3");
  const uint32_t number = Asked("w1");
  Promise("w1", 0, 40);
  cluster_.Failed("w3", job_, "killed");
  EXPECT_EQ(ChangeTold("w1").number(), number) << "it is void";
  Promise("w2", 1, 38, number);
  EXPECT_EQ(Record().view_changes_size(), 0);
  EXPECT_EQ(Status().ranks(), 2u);
}

TEST_F(CoreViewsTest, NodesOfOtherJobsStayToTheirEndAndThatIsSaid) {
  job_ = cluster_.Submit(CoreHarness::SomeJob(2));
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job_));
  for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job_);
  const absl::StatusOr<proto::DrainReply> reply = cluster_.Drain("w2");
  ASSERT_TRUE(reply.ok());
  ASSERT_EQ(reply->jobs_size(), 1);
  EXPECT_EQ(reply->jobs(0).stays(),
            "node 1 stays to its end: none may leave it (ranks_min) or be begun again (replace)");
}

// A job whose nodes stay, but are begun again when they die.
class CoreMoveTest : public ElasticFixture {
 protected:
  static proto::Job JobThatStays(uint32_t per_hour) {
    proto::Job job = CoreHarness::SomeJob(2);
    job.set_ranks_per_node(1);
    job.set_chunk_elements(256);
    job.mutable_replace()->set_per_hour(per_hour);
    job.mutable_replace()->set_patience_s(60);
    return job;
  }
  std::string WhyStays(const std::string& worker) {
    const auto reply = cluster_.Drain(worker);
    EXPECT_TRUE(reply.ok() && reply->jobs_size() == 1);
    return reply.ok() && reply->jobs_size() == 1 ? reply->jobs(0).stays() : "";
  }
};

TEST_F(CoreMoveTest, ANodeMovesToAWorkerThatHasRoom) {
  cluster_.JoinWorker("w3", 1);
  Train(JobThatStays(2));
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  EXPECT_THAT(cluster_.Sent("w2"), Contains("StopNode 1"));
  EXPECT_EQ(cluster_.Newest("w3", Message::kStartNode).start_node().incarnation(), 2u);
  EXPECT_EQ(Status().replacements(0).reason(), "worker w2 is being drained");
  EXPECT_TRUE(cluster_.Drain("w2", proto::DrainRequest::TELL)->drained());
}

TEST_F(CoreMoveTest, ANodeStaysUntilAWorkerHasRoom) {
  Train(JobThatStays(2));
  EXPECT_THAT(WhyStays("w2"), StartsWith("node 1 stays for now: "));
  EXPECT_EQ(Status().state(), proto::RUNNING);
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(2));
  EXPECT_THAT(cluster_.Sent("w3"), Contains("StartNode 1"));
}

TEST_F(CoreMoveTest, ANodeStaysWhereNoMoreMayBeBegunAgain) {
  cluster_.JoinWorker("w3", 1);
  cluster_.JoinWorker("w4", 1);
  Train(JobThatStays(1));
  cluster_.Failed("w1", job_, "killed");
  cluster_.Ready("w1", Layout(job_));
  EXPECT_THAT(WhyStays("w2"), HasSubstr("replace.per_hour allows no more"));
  EXPECT_EQ(Status().state(), proto::RUNNING) << Status().reason();
}

TEST_F(CoreViewsTest, ANodeThatHasLeftMayJoinAgainAsAnotherProcess) {
  Train();
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Promise("w1", 0, 20);
  Promise("w2", 1, 24);
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  cluster_.Finished("w2", job_, 24);
  ASSERT_TRUE(cluster_.Drain("w2", proto::DrainRequest::UNDO).ok());
  cluster_.Advance(absl::Seconds(1));
  const proto::StartNode start = cluster_.Newest("w2", Message::kStartNode).start_node();
  EXPECT_EQ(start.node(), 1u);
  EXPECT_EQ(start.incarnation(), 2u);
  cluster_.Ready("w2", Layout(job_));
  Promise("w1", 0, 60);
  ASSERT_EQ(Record().view_changes_size(), 2);
  EXPECT_EQ(Record().view_changes(1).at_clock(), 60u);
}

TEST_F(CoreViewsTest, ADaemonThatIsAboutToEndIsDrainedUntilItIsAnotherProcess) {
  Train();
  proto::DaemonMessage leaving;
  leaving.mutable_leaving();
  cluster_.Send("w2", leaving);
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("ProposeView 1"));
  Promise("w1", 0, 20);
  Promise("w2", 1, 24);
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  cluster_.Finished("w2", job_, 24);
  cluster_.Advance(absl::Seconds(30));
  EXPECT_THAT(cluster_.Sent("w2"), Not(Contains("StartNode 1"))) << "it is about to end";
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Seconds(3));
  cluster_.JoinWorker("w2", 1, {}, /*daemon_id=*/4711);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(cluster_.Sent("w2"), Contains("StartNode 1"));
}

TEST_F(CoreViewsTest, AJoinerThatDiesIsForgottenAndTheJobGoesOn) {
  Train();
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  cluster_.Failed("w3", job_, "no such program");
  EXPECT_EQ(Status().state(), proto::RUNNING);
  EXPECT_TRUE(Stored().nodes(2).absent());
  cluster_.Sent("w3");
  cluster_.Advance(absl::Seconds(10));
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("StartNode 1"))) << "not again at once";
  cluster_.Advance(absl::Seconds(15));
  EXPECT_THAT(cluster_.Sent("w3"), Contains("StartNode 1"));
  EXPECT_EQ(cluster_.Newest("w3", Message::kStartNode).start_node().incarnation(), 2u);
}

TEST_F(CoreViewsTest, AJoinerThatTrainsSomethingElseDoesNotJoin) {
  Train();
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  proto::NodeReady other = Layout(job_);
  other.mutable_layout()->mutable_segments(0)->set_name("v");
  cluster_.Ready("w3", other);
  EXPECT_EQ(Status().state(), proto::RUNNING);
  EXPECT_THAT(cluster_.warnings(), Contains(HasSubstr("node 2 does not join: ")));
  EXPECT_THAT(cluster_.Sent("w3"), Contains("StopNode 1"));
}

TEST_F(CoreViewsTest, WhereNodesDoNotAnswerTheChangeIsGivenUpAndItsPromisesAreVoid) {
  Train();
  Join("w3");
  const uint32_t number = Asked("w1");
  Promise("w1", 0, 40);
  cluster_.Advance(absl::Seconds(11));
  EXPECT_EQ(Record().view_changes_size(), 0);
  EXPECT_EQ(ChangeTold("w1").number(), number);
  EXPECT_TRUE(ChangeTold("w1").joined().empty());
  Promise("w2", 1, 38, number);
  EXPECT_EQ(Record().view_changes_size(), 0) << "too late";
  cluster_.Advance(absl::Seconds(6));
  EXPECT_GT(Asked("w1"), number) << "it is tried again, with another number";
}

TEST_F(CoreViewsTest, ANodeIsAskedAgainUntilItAnswers) {
  Train();
  Join("w3");
  cluster_.Sent("w1");
  cluster_.Sent("w2");
  Promise("w1", 0, 40);
  cluster_.Advance(absl::Seconds(3));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  EXPECT_THAT(cluster_.Sent("w2"), Contains("ProposeView 1"));
}

TEST_F(CoreViewsTest, AServerThatRefusesAChangeFailsTheJob) {
  Train();
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  InstallChange("s1", "chunk 3 has come to clock 41");
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), StartsWith("server s1 does not take in that the job's nodes"));
}

TEST_F(CoreViewsTest, AChangeThatWouldComeAfterTheLastStepIsGivenUp) {
  Train();
  Join("w3");
  Promise("w1", 0, 100);
  Promise("w2", 1, 38);
  EXPECT_EQ(Record().view_changes_size(), 0);
  for (const char* worker : {"w1", "w2"}) cluster_.Finished(worker, job_, 100);
  EXPECT_EQ(Status().state(), proto::FINISHED);
  EXPECT_THAT(cluster_.Sent("w3"), Contains("StopNode 1")) << "nobody waits for it";
}

TEST_F(CoreViewsTest, WithoutReplaceANodeThatDiesFailsTheJobAsBefore) {
  Train();
  LetJoin();
  cluster_.Failed("w3", job_, "boom");
  EXPECT_EQ(Status().state(), proto::FAILED);
}

}  // namespace
}  // namespace strata::server

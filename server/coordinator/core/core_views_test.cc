// Event-driven tests of nodes that join a job while it trains, and leave it.
#include <limits>
#include <string>
#include <utility>

#include "common/checkpoint/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/elastic_fixture.h"

namespace strata::server {
namespace {

using ::testing::AllOf;
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
  EXPECT_THAT(AnnouncedChange("w1").left(), ElementsAre(1));
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
  // Another node joins, and both changes happen at one step.
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
  EXPECT_EQ(AnnouncedChange("w1").number(), number) << "it is void";
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

// A job whose nodes do not change, but are restarted when they die.
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
  EXPECT_EQ(AnnouncedChange("w1").number(), number);
  EXPECT_TRUE(AnnouncedChange("w1").joined().empty());
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

// ---- rare orders of events ----

class CoreViewsMoreTest : public ElasticFixture {
 protected:
  // A job whose end is not known in advance.
  proto::NodeReady WithoutEnd() {
    proto::NodeReady ready = Layout(job_);
    ready.set_total_steps(0);
    return ready;
  }
  void TrainWithoutEnd() {
    job_ = cluster_.Submit(Job());
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, WithoutEnd());
    for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job_);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << Status().reason();
    ForgetSent();
  }
  void InstallAll() {
    for (const char* server : {"s1", "s2"}) InstallChange(server);
  }
  // The coordinator is a new process; all daemons of the job come back.
  void Restart() {
    cluster_.Restart();
    for (const char* server : {"s1", "s2"}) cluster_.JoinServer(server, 1, {job_});
    for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 1, {job_});
  }
};

TEST_F(CoreViewsMoreTest, WhereAJoinerDiesNobodyLeavesInItsPlace) {
  proto::Job job = Job();
  job.set_ranks_min(2);
  Train(job);
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Join("w3");
  const uint32_t number = Asked("w1");
  cluster_.Failed("w3", job_, "killed");
  Promise("w1", 0, 40, number);
  Promise("w2", 1, 38, number);
  EXPECT_EQ(Record().view_changes_size(), 0) << "the job needs two ranks";
  EXPECT_EQ(AnnouncedChange("w1").number(), number) << "promises are void";
  EXPECT_THAT(AnnouncedChange("w1").left(), IsEmpty());
  cluster_.Advance(absl::Seconds(10));
  EXPECT_THAT(cluster_.Drain("w2")->jobs(0).stays(), HasSubstr("ranks_min: 2"));
}

TEST_F(CoreViewsMoreTest, AfterARestartNobodyRunsBeforeAllServersHaveTheChange) {
  Train(ReplacedJob());
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  cluster_.Failed("w1", job_, "killed");
  InstallChange("s1");
  ForgetSent();
  Restart();
  for (const char* worker : {"w1", "w3"}) cluster_.Ready(worker, Layout(job_));
  for (const char* worker : {"w1", "w3"}) {
    EXPECT_THAT(cluster_.Sent(worker), Not(Contains("RunNode 1"))) << worker;
  }
  ForgetSent();
  cluster_.Advance(absl::Seconds(1));
  InstallAll();
  for (const char* worker : {"w1", "w3"}) {
    EXPECT_THAT(cluster_.Sent(worker), Contains("RunNode 1")) << worker;
  }
}

TEST_F(CoreViewsMoreTest, AClockThatNoJobComesToIsNoPromise) {
  TrainWithoutEnd();
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  cluster_.Ready("w3", WithoutEnd());
  Promise("w1", 0, std::numeric_limits<uint64_t>::max());
  Promise("w2", 1, 38);
  EXPECT_EQ(Record().view_changes_size(), 0);
  Promise("w1", 0, 40);
  ASSERT_EQ(Record().view_changes_size(), 1);
  EXPECT_EQ(Record().view_changes(0).at_clock(), 40u);
}

TEST_F(CoreViewsMoreTest, WhoIsBackInServiceDoesNotLeave) {
  Train();
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  const uint32_t number = Asked("w1");
  Promise("w1", 0, 20);
  ASSERT_TRUE(cluster_.Drain("w2", proto::DrainRequest::UNDO).ok());
  Promise("w2", 1, 24, number);
  EXPECT_EQ(Record().view_changes_size(), 0);
  EXPECT_EQ(AnnouncedChange("w1").number(), number) << "promises are void";
  EXPECT_EQ(Status().ranks(), 2u);
}

TEST_F(CoreViewsMoreTest, ANodeThatIsBegunAgainElsewhereMeanwhileDoesNotLeave) {
  cluster_.JoinWorker("w3", 1);
  proto::Job job = ReplacedJob();
  job.set_ranks_max(2);
  Train(job);
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Promise("w1", 0, 20);
  cluster_.Failed("w2", job_, "killed");
  cluster_.Ready("w3", Layout(job_));
  cluster_.Advance(absl::Seconds(10));
  EXPECT_THAT(cluster_.Sent("w3"), AllOf(Contains("RunNode 1"), Not(Contains("ProposeView 1"))));
}

TEST_F(CoreViewsMoreTest, FollowersSeeNoPlacesThatNobodyTakes) {
  Train();
  LetJoin();
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Promise("w1", 0, 50);
  Promise("w2", 1, 51);
  Promise("w3", 2, 52);
  InstallAll();
  cluster_.Finished("w2", job_, 52);
  std::vector<std::string> daemons;
  for (const auto& event : cluster_.events()) {
    if (!event.has_status()) continue;
    daemons.clear();
    for (const auto& node : event.status().nodes()) daemons.push_back(node.daemon());
  }
  EXPECT_THAT(daemons, ElementsAre("w1", "w3"));
}

TEST_F(CoreViewsMoreTest, AJoinerThatSaysSomethingElseWasNotBegunAgain) {
  Train();
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  proto::NodeReady other = Layout(job_);
  other.mutable_layout()->mutable_segments(0)->set_name("v");
  cluster_.Ready("w3", other);
  EXPECT_THAT(cluster_.warnings(),
              Contains(HasSubstr("node 2 (w3) does not train what the job does: ")));
}

TEST_F(CoreViewsMoreTest, AJoinerIsNotSaidToBeBegunAgainAfterARestart) {
  Train(ReplacedJob());
  cluster_.Failed("w2", job_, "killed");
  cluster_.Ready("w2", Layout(job_));
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Promise("w1", 0, 20);
  Promise("w2", 1, 24, Asked("w1"), /*incarnation=*/2);
  InstallAll();
  cluster_.Finished("w2", job_, 24);
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  ASSERT_TRUE(Stored().nodes(1).joins());
  Restart();
  cluster_.Failed("w1", job_, "killed");
  EXPECT_THAT(Status().reason(), Not(HasSubstr("node 1")));
}

TEST_F(CoreViewsMoreTest, WhoIsAboutToEndCannotBePutBackIntoService) {
  Train();
  proto::DaemonMessage leaving;
  leaving.mutable_leaving();
  cluster_.Send("w2", leaving);
  const auto undone = cluster_.Drain("w2", proto::DrainRequest::UNDO);
  EXPECT_EQ(undone.status(),
            absl::FailedPreconditionError("worker w2 is about to end: it was told to (--notice)"));
}

TEST_F(CoreViewsMoreTest, OfManyChangesTheNewestAreShown) {
  TrainWithoutEnd();
  for (uint64_t round = 1; round <= 60; ++round) {
    ASSERT_TRUE(cluster_.Drain("w2").ok());
    cluster_.Advance(absl::Seconds(1));
    Promise("w1", 0, 100 * round, Asked("w1"));
    Promise("w2", 1, 100 * round, Asked("w1"), Stored().nodes(1).incarnation());
    InstallAll();
    cluster_.Finished("w2", job_, 100 * round);
    ASSERT_TRUE(cluster_.Drain("w2", proto::DrainRequest::UNDO).ok());
    cluster_.Advance(absl::Seconds(1));
    cluster_.Ready("w2", WithoutEnd());
    Promise("w1", 0, 100 * round + 50);
    InstallAll();
  }
  EXPECT_EQ(Record().view_changes_size(), 120);
  EXPECT_EQ(Status().nodes_changes_size(), 100);
  EXPECT_EQ(Status().nodes_changes(99).step(), 6050u);
}

// Jobs whose nodes may join and leave, and that resume from a folder's checkpoint.
class CoreViewsResumeTest : public ElasticFixture {
 protected:
  // A checkpoint of step 20 of a job like `job`.
  static CheckpointFound Found(proto::Job job) {
    CheckpointFound found;
    found.manifest.clock = 20;
    *found.record.mutable_job() = std::move(job);
    found.record.mutable_placement()->set_chunk_elements(256);
    return found;
  }
  void GoOn(const proto::Job& job, const CheckpointFound& found) {
    job_ = cluster_.Submit(job, "/c");
    cluster_.Found(job_, found);
  }
  // The job as the coordinator takes it at submission.
  proto::Job Submitted(const proto::Job& job) {
    const uint32_t other = cluster_.Submit(job);
    const proto::Job submitted = cluster_.stored().at(other).record().job();
    EXPECT_TRUE(cluster_.core().Cancel(JobId(other), cluster_.now()).ok());
    return submitted;
  }
};

TEST_F(CoreViewsResumeTest, ChangesThatDoNotFitAreNamed) {
  CheckpointFound found = Found(Submitted(Job()));
  proto::ViewChange* const change = found.record.add_view_changes();
  change->set_number(2);
  change->set_at_clock(10);
  change->add_left(7);
  GoOn(Job(), found);
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_EQ(Status().reason(),
            "cannot go on from /c: change 2 of the job's nodes: the job has no node 7");
}

TEST_F(CoreViewsResumeTest, WhatAJoinerSaysOfTheCheckpointStopsNobody) {
  CheckpointFound found = Found(Submitted(Job()));
  *found.record.mutable_layout() = Layout(1).layout();
  found.record.set_samples_per_epoch(Layout(1).samples_per_epoch());
  GoOn(Job(), found);
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job_));
  for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job_);
  ASSERT_TRUE(cluster_.stored().at(job_).training()) << Status().reason();
  cluster_.JoinWorker("w3", 1);
  cluster_.Advance(absl::Seconds(1));
  proto::DaemonMessage message;
  proto::NodeFailed* const failed = message.mutable_node_failed();
  failed->set_job_id(job_);
  failed->set_incarnation(1);
  failed->set_is_damaged(true);
  failed->set_reason("cannot read it");
  cluster_.Send("w3", message);
  EXPECT_TRUE(cluster_.stored().at(job_).training()) << Status().reason();
  EXPECT_TRUE(Stored().nodes(2).absent());
}

TEST_F(CoreViewsResumeTest, NodesThatKeptStateMayHaveHadOtherRanks) {
  proto::Job job = Job();
  job.mutable_push()->set_codec(proto::Encoding::INT8);
  proto::Job stays = job;
  for (const auto clear : {&proto::Job::clear_ranks_min, &proto::Job::clear_ranks_max,
                           &proto::Job::clear_ranks_per_node}) {
    (stays.*clear)();
  }
  CheckpointFound found = Found(Submitted(stays));
  found.record.mutable_view()->add_nodes()->set_ranks(2);
  found.manifest.objects.push_back({.name = ToText({PartKind::kNode, 0}, 1, 0)});
  cluster_.JoinWorker("w3", 2);
  GoOn(job, found);
  ASSERT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  EXPECT_EQ(Record().view().nodes(0).ranks(), 1u);
}

TEST_F(CoreViewsMoreTest, WhoIsAboutToEndStaysSoWhoeverElseDrainedIt) {
  Train();
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  proto::DaemonMessage leaving;
  leaving.mutable_leaving();
  cluster_.Send("w2", leaving);
  const auto undone = cluster_.Drain("w2", proto::DrainRequest::UNDO);
  ASSERT_TRUE(undone.ok());
  EXPECT_TRUE(undone->draining());
}

TEST_F(CoreViewsMoreTest, AServerThatDoesNotTakeTheChangeInIsNamedInTheStatus) {
  Train();
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  InstallChange("s1");
  cluster_.Advance(absl::Seconds(5));
  ASSERT_EQ(Status().waits_size(), 1) << Status().ShortDebugString();
  EXPECT_EQ(Status().waits(0).daemon(), "s2");
  EXPECT_EQ(Status().waits(0).text(),
            "server s2 for 4 s: has not taken in that the job's nodes change")
      << "as of the last second";
  // The next coordinator asks again.
  cluster_.Restart();
  for (const char* server : {"s1", "s2"}) {
    cluster_.JoinServer(server, 1, {job_}, 0, std::string("address-") + server);
  }
  for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 1, {job_});
  cluster_.Advance(absl::Seconds(3));
  EXPECT_EQ(Status().waits_size(), 2);
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  cluster_.Advance(absl::Seconds(3));
  EXPECT_EQ(Status().waits_size(), 0);
}

// ---- breaks and restarts ----

class CoreViewsBreakTest : public ElasticFixture {
 protected:
  // The coordinator is a new process; all daemons of the job come back.
  void Restart() {
    cluster_.Restart();
    for (const char* server : {"s1", "s2"}) cluster_.JoinServer(server, 1, {job_});
    for (const char* worker : {"w1", "w2", "w3"}) cluster_.JoinWorker(worker, 1, {job_});
  }
};

TEST_F(CoreViewsBreakTest, WhatWasNotDecidedIsVoidAfterARestart) {
  Train();
  Join("w3");
  const uint32_t number = Asked("w1");
  Promise("w1", 0, 40);
  ForgetSent();
  Restart();
  EXPECT_EQ(AnnouncedChange("w1").number(), number);
  EXPECT_TRUE(AnnouncedChange("w1").joined().empty());
  EXPECT_EQ(Record().view_changes_size(), 0);
  cluster_.Ready("w3", Layout(job_));
  EXPECT_GT(Asked("w1"), number);
  Promise("w1", 0, 50);
  Promise("w2", 1, 51);
  EXPECT_EQ(Record().view_changes(0).at_clock(), 51u);
}

TEST_F(CoreViewsBreakTest, WhatWasDecidedIsGoneOnWithAfterARestart) {
  Train();
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  InstallChange("s1");
  ForgetSent();
  Restart();
  EXPECT_THAT(cluster_.Sent("w1"), Not(Contains("ChangeView 1"))) << "s2 does not have it";
  cluster_.Advance(absl::Seconds(2));
  EXPECT_THAT(cluster_.Sent("s1"), Contains("ChangeView 1"));
  cluster_.Ready("w3", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("RunNode 1")));
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  EXPECT_THAT(cluster_.Sent("w1"), Contains("ChangeView 1"));
  EXPECT_THAT(cluster_.Sent("w3"), Contains("RunNode 1"));
}

TEST_F(CoreViewsBreakTest, AJoinerThatIsReadyRightAfterARestartWaitsForTheServers) {
  Train();
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  InstallChange("s1");
  ForgetSent();
  cluster_.Restart();
  cluster_.JoinWorker("w3", 1, {job_});
  cluster_.Ready("w3", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("RunNode 1"))) << "no server is known to have it";
  for (const char* server : {"s1", "s2"}) cluster_.JoinServer(server, 1, {job_});
  for (const char* worker : {"w1", "w2"}) cluster_.JoinWorker(worker, 1, {job_});
  cluster_.Advance(absl::Seconds(2));
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  EXPECT_THAT(cluster_.Sent("w3"), Contains("RunNode 1"));
}

TEST_F(CoreViewsBreakTest, WorkersHearAfterARestartWhatTheyMayHaveMissed) {
  Train();
  LetJoin();
  Restart();
  EXPECT_THAT(cluster_.Sent("w1"), Contains("ChangeView 1"));
  EXPECT_EQ(AnnouncedChange("w1").at_clock(), 40u);
  EXPECT_EQ(Status().ranks(), 3u);
}

TEST_F(CoreViewsBreakTest, AServerThatIsAwayIsToldOnceItIsBack) {
  Train();
  Join("w3");
  cluster_.Disconnect("s2");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  InstallChange("s1");
  cluster_.JoinServer("s2", 1, {job_}, 0, "address-s2");
  cluster_.Advance(absl::Seconds(2));
  EXPECT_THAT(cluster_.Sent("s2"), Contains("ChangeView 1"));
  InstallChange("s2");
  EXPECT_THAT(cluster_.Sent("w3"), Contains("RunNode 1"));
}

TEST_F(CoreViewsBreakTest, ProcessesThatTakeANodesPlaceHavePromisedNothing) {
  Train(ReplacedJob());
  Join("w3");
  Promise("w1", 0, 40);
  cluster_.Failed("w1", job_, "killed");
  Promise("w2", 1, 38);
  EXPECT_EQ(Record().view_changes_size(), 0);
  cluster_.Ready("w1", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w1"), Contains("RunNode 1"));
  cluster_.Advance(absl::Seconds(1));
  Promise("w1", 0, 44, Asked("w2"), /*incarnation=*/1);
  EXPECT_EQ(Record().view_changes_size(), 0) << "of the processes before";
  Promise("w1", 0, 45, Asked("w1"), /*incarnation=*/2);
  ASSERT_EQ(Record().view_changes_size(), 1);
  EXPECT_EQ(Record().view_changes(0).at_clock(), 45u);
}

TEST_F(CoreViewsBreakTest, ANodeThatIsBegunAnewRunsOnceServersHaveTheChange) {
  Train(ReplacedJob());
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  cluster_.Failed("w1", job_, "killed");
  cluster_.Sent("w1");
  cluster_.Ready("w1", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty());
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("RunNode 1"));
  EXPECT_EQ(cluster_.Newest("w1", Message::kRunNode).run_node().record().view_changes(0).at_clock(),
            40u);
}

TEST_F(CoreViewsBreakTest, AJoinerThatDiesOnceTheChangeIsDecidedIsBegunAgain) {
  Train(ReplacedJob());
  Join("w3");
  Promise("w1", 0, 40);
  Promise("w2", 1, 38);
  cluster_.Failed("w3", job_, "killed");
  EXPECT_EQ(Status().state(), proto::RUNNING);
  EXPECT_EQ(cluster_.Newest("w3", Message::kStartNode).start_node().incarnation(), 2u);
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  EXPECT_THAT(cluster_.Sent("w3"), Not(Contains("RunNode 1")));
  cluster_.Ready("w3", Layout(job_));
  EXPECT_THAT(cluster_.Sent("w3"), Contains("RunNode 1"));
}

TEST_F(CoreViewsBreakTest, ALeaverThatDiesMakesItsLastStepsAgainAndLeaves) {
  cluster_.JoinWorker("w3", 1);
  proto::Job job = ReplacedJob();
  job.set_ranks_max(2);
  Train(job);
  ASSERT_TRUE(cluster_.Drain("w2").ok());
  Promise("w1", 0, 20);
  Promise("w2", 1, 24);
  for (const char* server : {"s1", "s2"}) InstallChange(server);
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster_.Newest("w3", Message::kStartNode).start_node().node(), 1u);
  cluster_.Ready("w3", Layout(job_));
  EXPECT_EQ(cluster_.Newest("w3", Message::kRunNode).run_node().record().view_changes(0).at_clock(),
            24u);
  cluster_.Finished("w3", job_, 24);
  EXPECT_TRUE(Stored().nodes(1).joins()) << "there is room for it again";
  EXPECT_EQ(Stored().nodes(1).incarnation(), 3u);
}

TEST_F(CoreViewsBreakTest, AJobThatBeganAgainGoesOnWithWhatIsThere) {
  proto::Job job = Job();
  job.set_ranks_max(2);
  job.mutable_checkpoint()->set_dir("/c");
  job.mutable_checkpoint()->set_every_steps(10);
  job.mutable_restart()->set_attempts(3);
  job.mutable_restart()->set_within_hours(1);
  job_ = cluster_.Submit(job);
  for (const CheckpointQuery& query : cluster_.TakeQueries()) {
    cluster_.Found(query.job, CheckpointFound());
  }
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job_));
  for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job_);
  ASSERT_EQ(Status().state(), proto::RUNNING) << Status().reason();
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Seconds(10));
  for (const CheckpointQuery& query : cluster_.TakeQueries()) {
    cluster_.Found(query.job, absl::NotFoundError("none"));
  }
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(Status().ranks(), 1u) << Status().reason();
  EXPECT_EQ(Record().attempt(), 1u);
  EXPECT_FALSE(Record().view().nodes(0).absent());
  EXPECT_TRUE(Record().view().nodes(1).absent());
}

}  // namespace

}  // namespace strata::server

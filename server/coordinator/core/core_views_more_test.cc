// Changes of a job's nodes where events come in rare orders, or say what cannot be.
#include <limits>
#include <string>
#include <utility>

#include "common/checkpoint/part_name.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/elastic_fixture.h"

namespace strata::server {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CoreViewsMoreTest : public ElasticFixture {
 protected:
  // Of a job whose end is not known before.
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
  // The coordinator is another process; all that had a part come back.
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
  EXPECT_EQ(ChangeTold("w1").number(), number) << "promises are void";
  EXPECT_THAT(ChangeTold("w1").left(), IsEmpty());
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
  EXPECT_EQ(ChangeTold("w1").number(), number) << "promises are void";
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

// Jobs whose nodes may come and go that go on from what is found in a folder.
class CoreViewsResumeTest : public ElasticFixture {
 protected:
  // Of step 20 of a job like `job`.
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
  // What the coordinator makes of the job when it is submitted.
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
  // The next coordinator asks anew.
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

}  // namespace
}  // namespace strata::server

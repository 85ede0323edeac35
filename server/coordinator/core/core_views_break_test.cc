// Changes of a job's nodes while the coordinator, servers and nodes come and go, by events.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/elastic_fixture.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class CoreViewsBreakTest : public ElasticFixture {
 protected:
  // The coordinator is another process; all that had a part come back.
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
  EXPECT_EQ(ChangeTold("w1").number(), number);
  EXPECT_TRUE(ChangeTold("w1").joined().empty());
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
  EXPECT_EQ(ChangeTold("w1").at_clock(), 40u);
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

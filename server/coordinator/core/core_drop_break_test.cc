// All-reduces that lose nodes while the coordinator and workers come and go, by events.
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
  // What is known of the dead node's steps is not waited for.
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

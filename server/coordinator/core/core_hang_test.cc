// Nodes that live, make no progress and are replaced, by events.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/replace_fixture.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CoreHangTest : public ReplaceFixture {
 protected:
  static constexpr uint64_t kStep = 20;  // at which rank 3 stops

  static proto::Job HangJob() {
    proto::Job job = Job();
    job.mutable_replace()->set_hang_after_s(60);
    return job;
  }
  // Every rank is at this step; rank 3, on the worker given, has been for `stopped_s`.
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
  // A step is a second.
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
  // Processes that are about to be gone still speak.
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

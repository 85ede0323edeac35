// Jobs whose nodes make as many steps as one another, or do not.

#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

class CoreStepsTest : public ::testing::Test {
 protected:
  void JoinAll() {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
  }
  uint32_t TrainFourRanks() {
    return cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1"});
  }

  CoreHarness cluster_;
};

// Steps of a node, as its worker's heartbeat says them.
proto::DaemonMessage Steps(uint32_t job, uint32_t node, uint64_t published, bool made_all) {
  proto::DaemonMessage message;
  proto::NodeActivity* activity = message.mutable_heartbeat()->add_nodes();
  activity->set_job_id(job);
  activity->set_node(node);
  activity->add_ranks()->set_clock(published);
  if (made_all) activity->set_steps_made(published);
  return message;
}

TEST_F(CoreStepsTest, NodesThatMakeOtherNumbersOfStepsFailTheJobAtTheEnd) {
  JoinAll();
  uint32_t job = TrainFourRanks();
  cluster_.Finished("w2", job, 6);
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  cluster_.Finished("w1", job, 10);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "rank 0 (node 0, w1) has finished after 10 steps, rank 2 (node 1, w2) after 6");
  job = TrainFourRanks();
  for (const char* worker : {"w1", "w2"}) cluster_.Finished(worker, job, 10);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreStepsTest, ANodeThatGoesOnWhereAnotherHasMadeItsLastStepFailsTheJobAtOnce) {
  JoinAll();
  const uint32_t job = TrainFourRanks();
  cluster_.Send("w1", Steps(job, 0, 6, false));
  cluster_.Send("w2", Steps(job, 1, 6, true));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << "it may have been the last one";
  cluster_.Send("w1", Steps(job, 0, 7, false));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "rank 2 (node 1, w2) has finished after 6 steps, but rank 0 (node 0, w1) goes on");
}

}  // namespace
}  // namespace strata::server

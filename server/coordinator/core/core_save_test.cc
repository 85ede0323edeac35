// What the core does when the store refuses a job's state.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;

class CoreSaveTest : public ::testing::Test {
 protected:
  void JoinAll() {
    cluster_.JoinServer("s1", 1);
    for (const char* worker : {"w1", "w2"}) cluster_.JoinWorker(worker, 2);
    for (const char* worker : {"w1", "w2"}) cluster_.Sent(worker);
  }

  CoreHarness cluster_;
};

TEST_F(CoreSaveTest, AJobWhoseStartCannotBeSavedFailsBeforeAnythingStarts) {
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.JoinServer("s1", 1);
  cluster_.JoinWorker("w1", 2);
  cluster_.FailNextPersist();
  cluster_.JoinWorker("w2", 2);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(), "the coordinator cannot save the job: disk full");
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("Registered", "StopNode 1"));
}

TEST_F(CoreSaveTest, AJobWhoseTrainingCannotBeSavedFails) {
  JoinAll();
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {});
  cluster_.FailNextPersist();
  cluster_.Installed("s1", job);
  EXPECT_EQ(cluster_.Status(job).reason(), "the coordinator cannot save the job: disk full");
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StartNode 1", "StopNode 1"));
}

TEST_F(CoreSaveTest, AnEndThatCouldNotBeSavedIsSavedLater) {
  JoinAll();
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1"});
  cluster_.Finished("w1", job);
  cluster_.FailNextPersist();
  cluster_.Finished("w2", job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
  EXPECT_EQ(cluster_.stored().at(job).status().state(), proto::RUNNING);
  cluster_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(cluster_.stored().at(job).status().state(), proto::FINISHED);
}

}  // namespace
}  // namespace strata::server

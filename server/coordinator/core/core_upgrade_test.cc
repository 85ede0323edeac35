// Clusters in the middle of an upgrade: daemons of two versions, each job on those of one.
#include <string>
#include <vector>

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Message = proto::CoordinatorMessage;

constexpr uint32_t kOld = kProtocolVersionOldest;
static_assert(kOld < kProtocolVersion);

class CoreUpgradeTest : public ::testing::Test {
 protected:
  // The process of before is gone.
  void Upgrade(const std::string& worker, uint32_t slots) {
    cluster_.Disconnect(worker);
    cluster_.Advance(absl::Seconds(3));
    cluster_.SetProtocol(worker, kProtocolVersion);
    cluster_.Sent(worker);
    cluster_.JoinWorker(worker, slots, {}, /*daemon_id=*/77);
  }
  // What it was sent since it has registered.
  std::vector<std::string> Sent(const std::string& daemon) {
    std::vector<std::string> sent = cluster_.Sent(daemon);
    std::erase(sent, "Registered");
    return sent;
  }
  void JoinOld(const std::string& worker, uint32_t slots) {
    cluster_.SetProtocol(worker, kOld);
    cluster_.JoinWorker(worker, slots);
  }
  void JoinOldServer(const std::string& server) {
    cluster_.SetProtocol(server, kOld);
    cluster_.JoinServer(server, 1, {}, 0, "address-" + server);
  }
  CoreHarness cluster_;
};

TEST_F(CoreUpgradeTest, AJobHasWorkersAndServersOfOneVersion) {
  JoinOldServer("s1");
  cluster_.JoinServer("s2", 1, {}, 0, "address-s2");
  JoinOld("w1", 4);
  cluster_.JoinWorker("w2", 1);
  cluster_.JoinWorker("w3", 1);
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(2));
  EXPECT_THAT(Sent("w1"), IsEmpty()) << "alone it had room, but the newest goes first";
  EXPECT_THAT(Sent("w2"), ElementsAre("StartNode 1"));
  cluster_.Ready("w2", job);
  cluster_.Ready("w3", job);
  cluster_.Installed("s2", job);
  const proto::JobStatus status = cluster_.Status(job);
  ASSERT_EQ(status.shards_size(), 1);
  EXPECT_EQ(status.shards(0).daemon(), "s2");
  EXPECT_THAT(status.reason(), HasSubstr("without server s1: worker w2 speaks protocol version 5, "
                                         "server s1 version 4"));
  EXPECT_THAT(Sent("s1"), IsEmpty());
  EXPECT_EQ(cluster_.stored().at(job).protocol_version(), kProtocolVersion);
}

TEST_F(CoreUpgradeTest, AJobRunsOnWorkersOfBeforeWhereTheNewOnesHaveNoRoom) {
  JoinOldServer("s1");
  JoinOld("w1", 2);
  cluster_.JoinWorker("w2", 1);
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  EXPECT_EQ(cluster_.stored().at(job).protocol_version(), kOld);
  EXPECT_THAT(Sent("w2"), IsEmpty());
}

TEST_F(CoreUpgradeTest, WorkersOfAVersionWithoutServersAreNotTaken) {
  JoinOldServer("s1");
  cluster_.JoinWorker("w1", 2);
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(2));
  cluster_.Advance(absl::Seconds(60));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w1 speaks protocol version 5, server s1 version 4");
  JoinOld("w2", 2);
  EXPECT_THAT(Sent("w2"), ElementsAre("StartNode 1"));
}

TEST_F(CoreUpgradeTest, AJobThatFitsOnBothVersionsTogetherWaitsForTheRest) {
  cluster_.JoinServer("s1", 1);
  JoinOld("w1", 2);
  cluster_.JoinWorker("w2", 2);
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(4));
  cluster_.Advance(absl::Seconds(60));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED) << "it must not fail";
  EXPECT_EQ(
      cluster_.Status(job).reason(),
      "needs 4 slots, but the one worker node has 2 slots: w2 2, of those that speak protocol "
      "version 5");
  Upgrade("w1", 2);
  EXPECT_THAT(Sent("w1"), ElementsAre("StartNode 1"));
  EXPECT_THAT(Sent("w2"), ElementsAre("StartNode 1"));
}

TEST_F(CoreUpgradeTest, AJobThatFitsOnNeitherNorBothFails) {
  cluster_.JoinServer("s1", 1);
  JoinOld("w1", 2);
  cluster_.JoinWorker("w2", 2);
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(5));
  cluster_.Advance(absl::Seconds(60));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
}

TEST_F(CoreUpgradeTest, ANodeIsBegunAgainWhereTheJobsVersionIsSpoken) {
  JoinOldServer("s1");
  for (const char* worker : {"w1", "w2"}) JoinOld(worker, 2);
  proto::Job wish = CoreHarness::SomeJob(4);
  wish.mutable_replace()->set_per_hour(2);
  wish.mutable_replace()->set_patience_s(60);
  const uint32_t job = cluster_.Submit(wish);
  proto::NodeReady ready = CoreHarness::SomeLayout(job);
  ready.set_can_resume(true);
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, ready);
  cluster_.Installed("s1", job);
  ASSERT_TRUE(cluster_.stored().at(job).training()) << cluster_.Status(job).reason();
  cluster_.SayActivity("w1", job, 0, 50);
  cluster_.SayActivity("w2", job, 1, 50);

  cluster_.Sent("w2");
  Upgrade("w2", 2);
  EXPECT_THAT(Sent("w2"), IsEmpty()) << "it was its worker, but speaks another version";
  EXPECT_THAT(cluster_.Status(job).reason(),
              HasSubstr("no other worker speaks protocol version 4, as those of the job do"));
  // A coordinator that begins again knows it, too.
  cluster_.Restart();
  cluster_.SetProtocol("s1", kOld);
  cluster_.JoinServer("s1", 1, {job}, 0, "address-s1");
  cluster_.JoinWorker("w1", 2, {job});
  cluster_.JoinWorker("w2", 2, {}, 77);
  cluster_.Advance(absl::Seconds(5));
  EXPECT_THAT(Sent("w2"), IsEmpty());
  JoinOld("w3", 2);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(Sent("w3"), ElementsAre("StartNode 1"));
}

TEST_F(CoreUpgradeTest, WhatACoordinatorOfBeforeHasSavedIsOfTheOldestVersion) {
  JoinOldServer("s1");
  JoinOld("w1", 2);
  const uint32_t job = cluster_.Train(CoreHarness::SomeJob(2), {"w1"}, {"s1"});
  cluster_.stored_to_change(job)->clear_protocol_version();
  cluster_.Restart();
  cluster_.JoinServer("s1", 1, {job}, 0, "address-s1");
  cluster_.JoinWorker("w1", 2, {job});
  cluster_.Finished("w1", job, 100);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED) << cluster_.Status(job).reason();
}

TEST_F(CoreUpgradeTest, ASecondCopyLiesWhereTheJobsVersionIsSpoken) {
  for (const char* server : {"s1", "s2", "s3", "s4"}) {
    cluster_.SetHost(server, std::string("host of ") + server);
  }
  for (const char* server : {"s1", "s2"}) JoinOldServer(server);
  JoinOld("w1", 2);
  JoinOld("w2", 2);
  proto::Job wish = CoreHarness::SomeJob(4);
  wish.set_replicas(1);
  wish.set_chunk_elements(500);
  cluster_.Train(wish, {"w1", "w2"}, {"s1", "s2"});
  cluster_.Disconnect("s2");
  cluster_.Advance(absl::Seconds(10));
  cluster_.JoinServer("s3", 1, {}, 0, "address-s3");
  cluster_.Advance(absl::Seconds(10));
  EXPECT_THAT(Sent("s3"), IsEmpty());
  JoinOldServer("s4");
  cluster_.Advance(absl::Seconds(10));
  EXPECT_THAT(Sent("s4"), ElementsAre(HasSubstr("InstallBackup"), HasSubstr("InstallBackup")));
}

TEST_F(CoreUpgradeTest, AJobThatGoesOnFromACheckpointGoesOnAtTheNewVersion) {
  JoinOldServer("s1");
  JoinOld("w1", 2);
  proto::Job wish = CoreHarness::SomeJob(2);
  wish.mutable_checkpoint()->set_dir("/c");
  wish.mutable_checkpoint()->set_every_steps(10);
  wish.mutable_restart()->set_attempts(3);
  const uint32_t job = cluster_.Submit(wish);
  cluster_.Found(job, CheckpointFound());
  proto::NodeReady ready = CoreHarness::SomeLayout(job);
  ready.set_can_resume(true);
  cluster_.Ready("w1", ready);
  cluster_.Installed("s1", job);
  ASSERT_TRUE(cluster_.stored().at(job).training()) << cluster_.Status(job).reason();
  cluster_.TakeQueries();
  cluster_.JoinServer("s2", 1, {}, 0, "address-s2");
  Upgrade("w1", 2);
  ASSERT_EQ(cluster_.TakeQueries().size(), 1u) << cluster_.Status(job).reason();
  cluster_.Found(job, absl::NotFoundError("none"));
  cluster_.Advance(absl::Seconds(120));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << cluster_.Status(job).reason();
  EXPECT_EQ(cluster_.stored().at(job).protocol_version(), kProtocolVersion);
}

}  // namespace
}  // namespace strata::server

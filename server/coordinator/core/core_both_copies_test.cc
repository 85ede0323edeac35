// Jobs that lose both copies of their shards at once.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;
using ::testing::StartsWith;
using Message = proto::CoordinatorMessage;

// Servers s1 and s2 with one shard each, on hosts of their own; the shards back each other. The job
// has a checkpoint of step 10, and a part of the one of step 20.
class CoreBothCopiesTest : public ::testing::Test {
 protected:
  CoreBothCopiesTest() {
    for (const char* server : {"s1", "s2"}) {
      cluster_.SetHost(server, std::string("host of ") + server);
    }
    JoinServers(1);
    for (const char* worker : {"w1", "w2"}) cluster_.JoinWorker(worker, 2);
  }
  // New processes of both, which hold nothing.
  void JoinServers(uint64_t process) {
    for (const char* server : {"s1", "s2"}) {
      cluster_.JoinServer(server, 1, {}, process, std::string("address-") + server);
      ++process;
    }
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_replicas(1);
    job.set_chunk_elements(500);
    job.mutable_checkpoint()->set_dir("/c");
    job.mutable_checkpoint()->set_every_steps(10);
    job.mutable_restart()->set_attempts(3);
    return job;
  }
  // From the start of its nodes to training.
  void LetTrain() {
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_can_resume(true);
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, ready);
    for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job_);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << Status().reason();
    cluster_.Sent("w1");
  }
  void TrainToStep20(const proto::Job& job = Job()) {
    job_ = cluster_.Submit(job);
    if (job.has_checkpoint()) cluster_.Found(job_, CheckpointFound());
    LetTrain();
    if (!job.has_checkpoint()) return;
    cluster_.WritePart("s1", job_, 10, 0);
    cluster_.WritePart("s2", job_, 10, 1);
    const std::vector<CheckpointToKeep> to_keep = cluster_.TakeToKeep();
    ASSERT_THAT(to_keep, SizeIs(1));
    found_.manifest = to_keep[0].manifest;
    ASSERT_TRUE(found_.record.ParseFromString(found_.manifest.record));
    cluster_.Kept(job_, 10);
    cluster_.WritePart("s1", job_, 20, 0);
    cluster_.TakeQueries();
  }
  void ExpectItGoesOnFromStep10() {
    const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
    ASSERT_THAT(queries, SizeIs(1));
    EXPECT_EQ(queries[0].resume_dir, "/c");
    cluster_.Found(job_, found_);
    cluster_.Advance(absl::Seconds(2));
    const proto::JobRecord started =
        cluster_.Newest("w1", Message::kStartNode).start_node().record();
    EXPECT_EQ(started.attempt(), 1u);
    EXPECT_EQ(started.resume().clock(), 10u);
    LetTrain();
    const proto::InstallJob install = cluster_.Newest("s2", Message::kInstallJob).install_job();
    EXPECT_EQ(install.record().resume().clock(), 10u);
    EXPECT_EQ(install.own_backups_size(), 1) << "each shard lies twice again";
    ASSERT_EQ(Status().restarts_size(), 1);
    EXPECT_EQ(Status().restarts(0).step(), 10u);
    EXPECT_THAT(Status().restarts(0).reason(), StartsWith("server s2 "));
    EXPECT_THAT(Status().restarts(0).reason(), HasSubstr("; it had the only copy of shard 0"));
    EXPECT_EQ(Status().checkpoints().resumed_step(), 10u);
    EXPECT_FALSE(Status().checkpoints().has_writing_step()) << "20 is never whole";
  }
  proto::JobStatus Status() { return cluster_.Status(job_); }

  CoreHarness cluster_;
  CheckpointFound found_;
  uint32_t job_ = 0;
};

TEST_F(CoreBothCopiesTest, WithCheckpointsTheJobGoesOnFromTheNewestAndSaysWhy) {
  TrainToStep20();
  for (const char* server : {"s1", "s2"}) cluster_.Disconnect(server);
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(Status().state(), proto::QUEUED);
  EXPECT_THAT(Status().reason(), StartsWith("goes on after it failed: server s2 is lost: "));
  EXPECT_THAT(Status().reason(), HasSubstr("; it had the only copy of shard 0"));
  EXPECT_THAT(cluster_.Sent("w1"), IsSupersetOf({"StopNode 1"}));
  JoinServers(11);
  ExpectItGoesOnFromStep10();
}

TEST_F(CoreBothCopiesTest, ServersThatComeBackEmptyAtOnceHaveLostThem) {
  TrainToStep20();
  for (const char* server : {"s1", "s2"}) cluster_.Disconnect(server);
  JoinServers(11);
  EXPECT_EQ(Status().state(), proto::QUEUED) << Status().reason();
  ExpectItGoesOnFromStep10();
}

TEST_F(CoreBothCopiesTest, WhereTheCoordinatorDiesWithThemTheNextOneNotices) {
  TrainToStep20();
  cluster_.Restart();
  for (const char* worker : {"w1", "w2"}) cluster_.JoinWorker(worker, 2, {job_});
  JoinServers(11);
  EXPECT_EQ(Status().state(), proto::QUEUED) << Status().reason();
  ExpectItGoesOnFromStep10();
}

TEST_F(CoreBothCopiesTest, WithoutCheckpointsTheJobFails) {
  proto::Job job = Job();
  job.clear_checkpoint();
  job.clear_restart();
  TrainToStep20(job);
  for (const char* server : {"s1", "s2"}) cluster_.Disconnect(server);
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(Status().state(), proto::FAILED);
  EXPECT_THAT(Status().reason(), HasSubstr("; it had the only copy of shard 0"));
  EXPECT_THAT(cluster_.TakeQueries(), IsEmpty());
}

}  // namespace
}  // namespace strata::server

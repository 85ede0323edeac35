// Tests of jobs whose shards are on two servers.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;
using Message = proto::CoordinatorMessage;

// Servers s1 and s2 with one shard each, on hosts of their own; the shards back each other.
class CoreReplicasTest : public ::testing::Test {
 protected:
  CoreReplicasTest() {
    for (const char* server : {"s1", "s2"}) {
      cluster_.SetHost(server, std::string("host of ") + server);
      cluster_.JoinServer(server, 1, {}, 0, std::string("address-") + server);
    }
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
  }
  static proto::Job JobWithReplicas() {
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_replicas(1);
    job.set_chunk_elements(500);
    return job;
  }
  void Train() {
    job_ = cluster_.Train(JobWithReplicas(), {"w1", "w2"}, {"s1", "s2"});
    ForgetSent();
  }
  void ForgetSent() {
    for (const char* daemon : {"s1", "s2", "w1", "w2"}) cluster_.Sent(daemon);
  }
  void Lose(const std::string& daemon) {
    cluster_.Disconnect(daemon);
    cluster_.Advance(absl::Seconds(10));
  }
  void SayOfBackup(const std::string& daemon, uint32_t shard, uint32_t generation,
                   uint32_t waits_ms, const std::string& refusal = "", uint32_t missing = 0) {
    proto::DaemonMessage message;
    proto::JobCounters* counters = message.mutable_heartbeat()->add_jobs();
    counters->set_job_id(job_);
    proto::BackupReport* report = counters->add_backups();
    report->set_shard(shard);
    report->set_generation(generation);
    report->set_waits_ms(waits_ms);
    report->set_refusal(refusal);
    report->set_chunks_missing(missing);
    cluster_.Send(daemon, message);
  }
  proto::MoveShard NewestMove(const std::string& daemon) {
    return cluster_.Newest(daemon, Message::kMoveShard).move_shard();
  }

  // A third server, on a host of its own.
  void JoinThird(std::vector<uint32_t> jobs = {}) {
    cluster_.SetHost("s3", "host of s3");
    cluster_.JoinServer("s3", 1, std::move(jobs), 0, "address-s3");
  }
  proto::InstallBackup NewestBackup(const std::string& daemon) {
    return cluster_.Newest(daemon, Message::kInstallBackup).install_backup();
  }
  void SayInstalled(const std::string& daemon, uint32_t shard, uint32_t generation,
                    const std::string& error) {
    proto::DaemonMessage message;
    proto::BackupInstalled* installed = message.mutable_backup_installed();
    installed->set_job_id(job_);
    installed->set_shard(shard);
    installed->set_generation(generation);
    installed->set_error(error);
    cluster_.Send(daemon, message);
  }
  const proto::JobShardStatus& Stored(int shard) {
    return cluster_.stored().at(job_).status().shards(shard);
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

TEST_F(CoreReplicasTest, EachShardIsInstalledTwice) {
  const uint32_t job = cluster_.Submit(JobWithReplicas());
  cluster_.Ready("w1", job);
  cluster_.Ready("w2", job);
  const proto::InstallJob install = cluster_.Newest("s2", Message::kInstallJob).install_job();
  EXPECT_THAT(install.own_shards(), ElementsAre(1));
  ASSERT_EQ(install.own_backups_size(), 1);
  EXPECT_EQ(install.own_backups(0).shard(), 0u);
  EXPECT_EQ(install.own_backups(0).thread(), 0u);
  const proto::Placement& placement = install.record().placement();
  EXPECT_THAT(placement.shard_generations(), ElementsAre(1, 1));
  EXPECT_EQ(placement.backup_endpoints(0), placement.shard_endpoints(1));
  EXPECT_EQ(placement.backup_endpoints(1), placement.shard_endpoints(0));
  EXPECT_EQ(cluster_.Status(job).shards(0).backup(), "s2");
}

TEST_F(CoreReplicasTest, WhenAServerIsLostItsShardsGoOnAtTheOther) {
  Train();
  const std::string second = cluster_.stored().at(job_).record().placement().shard_endpoints(1);
  Lose("s1");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  EXPECT_THAT(cluster_.Sent("s2"), UnorderedElementsAre("MoveShard 1 0", "MoveShard 1 1"));
  for (const char* worker : {"w1", "w2"}) {
    EXPECT_THAT(cluster_.Sent(worker), UnorderedElementsAre("MoveShard 1 0", "MoveShard 1 1"));
  }
  const proto::MoveShard move = NewestMove("w1");
  EXPECT_EQ(move.generation(), 2u);
  EXPECT_EQ(move.endpoint(), second);
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("2 of its shards have one copy"));
  // It was saved before anybody was told.
  EXPECT_THAT(cluster_.stored().at(job_).record().placement().shard_generations(),
              ElementsAre(2, 2));
}

TEST_F(CoreReplicasTest, WithoutAnotherCopyTheJobFailsAndSaysSo) {
  Train();
  Lose("s1");
  Lose("s2");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FAILED);
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("server s2 is lost"));
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("the only copy of shard 0"));
}

TEST_F(CoreReplicasTest, AJobThatAsksForNoneFailsAsBefore) {
  proto::Job job = JobWithReplicas();
  job.clear_replicas();
  job_ = cluster_.Train(job, {"w1", "w2"}, {"s1", "s2"});
  Lose("s1");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FAILED);
  EXPECT_THAT(cluster_.Status(job_).reason(), testing::StartsWith("server s1 is lost: "));
}

TEST_F(CoreReplicasTest, ServersOfOneHostAreRefused) {
  CoreHarness cluster;
  for (const char* server : {"s1", "s2"}) {
    cluster.SetHost(server, "rack7");
    cluster.JoinServer(server, 1);
  }
  cluster.JoinWorker("w1", 4);
  const std::string why =
      "replicas: a second copy lies on another host, but all servers are on one: s1, s2";
  const uint32_t job = cluster.Submit(JobWithReplicas());
  cluster.Ready("w1", job);
  EXPECT_EQ(cluster.Status(job).state(), proto::RUNNING) << "one on another host may come";
  EXPECT_EQ(cluster.Status(job).reason(), why);
  cluster.Advance(absl::Seconds(11));
  EXPECT_EQ(cluster.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster.Status(job).reason(), why);
}

TEST_F(CoreReplicasTest, AServerOfAnotherHostIsWaitedForAWhile) {
  CoreHarness cluster;
  cluster.SetHost("s1", "rack7");
  cluster.JoinServer("s1", 1);
  cluster.JoinWorker("w1", 4);
  const uint32_t job = cluster.Submit(JobWithReplicas());
  cluster.Ready("w1", job);
  cluster.SetHost("s2", "rack8");
  cluster.JoinServer("s2", 1);
  cluster.Advance(absl::Seconds(1));
  EXPECT_EQ(cluster.Newest("s2", Message::kInstallJob).install_job().own_backups_size(), 1);
}

TEST_F(CoreReplicasTest, ABackupThatDoesNotFollowIsDropped) {
  Train();
  SayOfBackup("s1", 0, 1, 2999);
  EXPECT_THAT(cluster_.Sent("s1"), IsEmpty()) << "it may be busy";
  SayOfBackup("s2", 0, 1, 5000);
  SayOfBackup("s1", 0, 2, 5000);
  EXPECT_THAT(cluster_.Sent("s1"), IsEmpty()) << "not its primary, or not of this generation";
  SayOfBackup("s1", 0, 1, 3000);
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("MoveShard 1 0"));
  EXPECT_EQ(NewestMove("s1").generation(), 2u);
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("RemoveShard 1 0"));
  SayOfBackup("s2", 1, 1, 0, "backup tcp://address-s1:1 refused: CONFLICT");
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("MoveShard 1 1"));
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("RemoveShard 1 1"));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  // A shard without a backup is lost with its primary.
  Lose("s1");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FAILED);
}

TEST_F(CoreReplicasTest, WhoComesBackHearsAgainWhereShardsLie) {
  Train();
  Lose("s1");
  cluster_.Disconnect("w1");
  cluster_.Disconnect("s2");
  ForgetSent();
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.JoinServer("s2", 1, {job_}, 0, "address-s2");
  EXPECT_THAT(cluster_.Sent("w1"), testing::IsSupersetOf({"MoveShard 1 0", "MoveShard 1 1"}));
  EXPECT_THAT(cluster_.Sent("s2"), testing::IsSupersetOf({"MoveShard 1 0", "MoveShard 1 1"}));
}

TEST_F(CoreReplicasTest, WhoComesBackHearsAgainWhichCopiesItIsToForget) {
  Train();
  SayOfBackup("s1", 0, 1, 3000);
  cluster_.Disconnect("s2");  // the command to drop its copy of shard 0 is lost
  ForgetSent();
  cluster_.JoinServer("s2", 1, {job_}, 0, "address-s2");
  EXPECT_THAT(cluster_.Sent("s2"), testing::Contains("RemoveShard 1 0"));
  EXPECT_EQ(cluster_.Newest("s2", Message::kRemoveShard).remove_shard().generation(), 2u);
  // It has shard 1 as before, and the first server has shard 0.
  cluster_.Disconnect("s1");
  ForgetSent();
  cluster_.JoinServer("s1", 1, {job_}, 0, "address-s1");
  EXPECT_THAT(cluster_.Sent("s1"), testing::Not(testing::Contains("RemoveShard 1 0")));
}

TEST_F(CoreReplicasTest, ACoordinatorThatRestartsKnowsWhereShardsLie) {
  Train();
  Lose("s1");
  cluster_.Restart();
  cluster_.JoinServer("s2", 1, {job_}, 0, "address-s2");
  EXPECT_THAT(cluster_.Sent("s2"), testing::IsSupersetOf({"MoveShard 1 0", "MoveShard 1 1"}));
  EXPECT_EQ(NewestMove("s2").generation(), 2u);
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.Advance(absl::Minutes(1));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING) << cluster_.Status(job_).reason();
}

TEST_F(CoreReplicasTest, WhatHasLostACopyGetsAnotherOne) {
  Train();
  JoinThird();
  Lose("s1");
  // Each shard has another backup now; both primaries are on s2.
  EXPECT_THAT(cluster_.Sent("s3"),
              testing::IsSupersetOf({"InstallBackup 1 0", "InstallBackup 1 1"}));
  EXPECT_EQ(NewestMove("s2").backup_endpoint(), "") << "who could be filled by now?";
  SayInstalled("s3", 1, 3, "");
  const proto::MoveShard fill = NewestMove("s2");
  EXPECT_EQ(fill.generation(), 3u);
  EXPECT_FALSE(fill.backup_is_whole());
  const proto::InstallBackup install = NewestBackup("s3");
  const int shard = static_cast<int>(install.backup().shard());
  EXPECT_EQ(install.record().placement().backup_endpoints(shard), fill.backup_endpoint());
  EXPECT_EQ(install.record().placement().shard_generations(shard), 3u);
  EXPECT_EQ(Stored(shard).backup(), "s3") << "it is saved before anybody is told";
  EXPECT_TRUE(Stored(shard).backup_is_partial());
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("2 of its shards have one copy"));
  ForgetSent();
  SayOfBackup("s2", 0, 3, 20, "", /*missing=*/1);
  EXPECT_TRUE(Stored(0).backup_is_partial());
  SayOfBackup("s2", 0, 2, 0);
  EXPECT_TRUE(Stored(0).backup_is_partial()) << "that is old news";
  SayOfBackup("s2", 0, 3, 0);
  EXPECT_FALSE(Stored(0).backup_is_partial());
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("MoveShard 1 0"));
  EXPECT_TRUE(NewestMove("s2").backup_is_whole());
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("1 of its shards have one copy"));
  SayOfBackup("s2", 1, 3, 0);
  EXPECT_EQ(cluster_.Status(job_).reason(), "");
  // So the next server's loss is harmless, too.
  Lose("s2");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  EXPECT_EQ(Stored(0).daemon(), "s3");
}

TEST_F(CoreReplicasTest, WhatIsBeingFilledCannotTakeOver) {
  Train();
  JoinThird();
  Lose("s1");
  SayOfBackup("s2", 0, 3, 0, "", 7);
  Lose("s2");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FAILED);
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("the only copy of shard"));
}

TEST_F(CoreReplicasTest, AServerThatComesBackEmptyIsFilled) {
  Train();
  Lose("s1");
  ForgetSent();
  cluster_.JoinServer("s1", 1, {}, 0, "address-s1");
  cluster_.Advance(absl::Seconds(2));
  EXPECT_THAT(cluster_.Sent("s1"),
              testing::IsSupersetOf({"InstallBackup 1 0", "InstallBackup 1 1"}));
}

TEST_F(CoreReplicasTest, ACopyThatIsNotFilledInTimeOrRefusedIsTriedElsewhere) {
  Train();
  JoinThird();
  Lose("s1");
  SayOfBackup("s2", 0, 3, 9999, "", 1);
  EXPECT_EQ(Stored(0).backup(), "s3") << "large chunks take their time";
  SayOfBackup("s2", 0, 3, 10000, "", 1);
  EXPECT_EQ(Stored(0).backup(), "");
  SayInstalled("s3", 1, 2, "it needs up to 4.0 MiB");
  EXPECT_EQ(Stored(1).backup(), "s3") << "that is old news";
  SayInstalled("s3", 1, 3, "it needs up to 4.0 MiB");
  EXPECT_EQ(Stored(1).backup(), "");
  EXPECT_THAT(cluster_.Sent("s3"), testing::IsSupersetOf({"RemoveShard 1 0", "RemoveShard 1 1"}));
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(Stored(0).backup(), "") << "not again at once";
  cluster_.SetHost("s4", "host of s4");
  cluster_.JoinServer("s4", 1, {}, 0, "address-s4");
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(Stored(0).backup(), "s4");
  EXPECT_EQ(Stored(1).backup(), "s4");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
}

TEST_F(CoreReplicasTest, ANewProcessOfAServerThatWasPassedOverIsAskedAgain) {
  Train();
  SayOfBackup("s1", 0, 1, 3000);
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(Stored(0).backup(), "") << "there is no other server";
  Lose("s2");
  cluster_.JoinServer("s2", 1, {}, 0, "address-s2");
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(Stored(0).backup(), "s2");
}

TEST_F(CoreReplicasTest, ACoordinatorThatRestartsGoesOnFilling) {
  Train();
  JoinThird();
  Lose("s1");
  cluster_.Restart();
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.JoinWorker("w2", 2, {job_});
  cluster_.JoinServer("s2", 1, {job_}, 0, "address-s2");
  EXPECT_EQ(NewestMove("s2").generation(), 3u);
  EXPECT_FALSE(NewestMove("s2").backup_is_whole());
  JoinThird({job_});
  EXPECT_THAT(cluster_.Sent("s3"),
              testing::IsSupersetOf({"InstallBackup 1 0", "InstallBackup 1 1"}));
  SayOfBackup("s2", 0, 3, 0);
  SayOfBackup("s2", 1, 3, 0);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  EXPECT_FALSE(Stored(0).backup_is_partial());
}

TEST_F(CoreReplicasTest, ANewCopyWhoseServerHasNothingIsLost) {
  Train();
  JoinThird();
  Lose("s1");
  cluster_.Disconnect("s3");
  JoinThird();  // a new process
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(NewestBackup("s3").record().placement().shard_generations(0), 5u);
}

TEST_F(CoreReplicasTest, AJobThatWaitsWhileItIsUnprotectedSaysSo) {
  proto::Job job = JobWithReplicas();
  job.set_while_unprotected(proto::Job::WAIT);
  job_ = cluster_.Train(job, {"w1", "w2"}, {"s1", "s2"});
  Lose("s1");
  EXPECT_EQ(cluster_.Status(job_).reason(),
            "2 of its shards have one copy: the job waits for second ones");
}

TEST_F(CoreReplicasTest, AServerThatCannotTakeAShardOverFailsTheJob) {
  Train();
  Lose("s1");
  proto::DaemonMessage message;
  proto::ShardNotMoved* not_moved = message.mutable_shard_not_moved();
  not_moved->set_job_id(job_);
  not_moved->set_shard(0);
  not_moved->set_generation(1);
  not_moved->set_error("it is not here");
  cluster_.Send("s2", message);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING) << "that is old news";
  not_moved->set_generation(2);
  cluster_.Send("s2", message);
  EXPECT_EQ(cluster_.Status(job_).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job_).reason(), "server s2 cannot take shard 0 over: it is not here");
}

// ---- both copies lost at once ----

// Servers s1 and s2 with one shard each, on hosts of their own; the shards back each other. The job
// has a checkpoint of step 10, and part of the one of step 20.
class CoreBothCopiesTest : public ::testing::Test {
 protected:
  CoreBothCopiesTest() {
    for (const char* server : {"s1", "s2"}) {
      cluster_.SetHost(server, std::string("host of ") + server);
    }
    JoinServers(1);
    for (const char* worker : {"w1", "w2"}) cluster_.JoinWorker(worker, 2);
  }
  // New, empty processes of both servers.
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

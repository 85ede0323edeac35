// Daemons that are taken out of service while jobs run.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;
using Message = proto::CoordinatorMessage;
using Request = proto::DrainRequest;

// Servers with two shards each, on hosts of their own, and a job of four chunks.
class DrainFixture : public ::testing::Test {
 protected:
  DrainFixture() {
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
    Join("s1");
    Join("s2");
  }
  void Join(const std::string& server, const std::vector<uint32_t>& jobs = {}) {
    cluster_.SetHost(server, "host of " + server);
    cluster_.JoinServer(server, 2, jobs, 0, "address-" + server);
  }
  void Train(uint32_t replicas) {
    proto::Job job = CoreHarness::SomeJob(4);
    job.set_replicas(replicas);
    job.set_chunk_elements(256);
    job_ = cluster_.Train(job, {"w1", "w2"}, {"s1", "s2"});
    ForgetSent();
  }
  void ForgetSent() {
    for (const char* daemon : {"s1", "s2", "s3", "w1", "w2"}) cluster_.Sent(daemon);
  }
  // A job with two copies is about to move from s1 to s3.
  void BeginOfThree() {
    Train(1);
    Join("s3");
    ASSERT_TRUE(cluster_.Drain("s1").ok());
    ASSERT_EQ(Stored(0).next_backup(), "s3");
  }
  void Lose(const std::string& server) {
    cluster_.Disconnect(server);
    cluster_.Advance(absl::Seconds(10));
  }
  const proto::JobShardStatus& Stored(int shard) {
    return cluster_.stored().at(job_).status().shards(shard);
  }
  uint32_t Generation(int shard) {
    return cluster_.stored().at(job_).record().placement().shard_generations(shard);
  }
  void SayInstalled(const std::string& daemon, uint32_t shard, uint32_t generation,
                    const std::string& error = "") {
    proto::DaemonMessage message;
    proto::BackupInstalled* installed = message.mutable_backup_installed();
    installed->set_job_id(job_);
    installed->set_shard(shard);
    installed->set_generation(generation);
    installed->set_error(error);
    cluster_.Send(daemon, message);
  }
  void Report(const std::string& daemon, uint32_t shard, uint32_t generation, bool is_next,
              uint32_t missing = 0, uint32_t waits_ms = 0) {
    proto::DaemonMessage message;
    proto::JobCounters* counters = message.mutable_heartbeat()->add_jobs();
    counters->set_job_id(job_);
    proto::BackupReport* report = counters->add_backups();
    report->set_shard(shard);
    report->set_generation(generation);
    report->set_is_next(is_next);
    report->set_chunks_missing(missing);
    report->set_waits_ms(waits_ms);
    cluster_.Send(daemon, message);
  }
  // Completes all copies that are being filled; then lets time pass for the next step.
  void FillAll() {
    const proto::JobStatus status = cluster_.stored().at(job_).status();
    for (int i = 0; i < status.shards_size(); ++i) {
      const proto::JobShardStatus& shard = status.shards(i);
      const auto number = static_cast<uint32_t>(i);
      if (!shard.next_backup().empty()) {
        SayInstalled(shard.next_backup(), number, shard.next_generation());
        Report(shard.replaces_primary() ? shard.backup() : shard.daemon(), number,
               shard.next_generation(), /*is_next=*/true);
      } else if (shard.backup_is_partial()) {
        SayInstalled(shard.backup(), number, Generation(i));
        Report(shard.daemon(), number, Generation(i), /*is_next=*/false);
      }
    }
    cluster_.Advance(absl::Milliseconds(200));
  }
  std::set<std::string> Servers() {
    std::set<std::string> servers;
    for (const proto::JobShardStatus& shard : cluster_.stored().at(job_).status().shards()) {
      servers.insert({shard.daemon(), shard.backup(), shard.next_backup()});
    }
    servers.erase("");
    return servers;
  }
  proto::DrainReply Tell(const std::string& daemon) {
    const auto told = cluster_.Drain(daemon, proto::DrainRequest::TELL);
    EXPECT_TRUE(told.ok()) << told.status();
    return told.ok() ? *told : proto::DrainReply();
  }
  proto::DaemonStatus Shown(const std::string& daemon) {
    const proto::ListNodesReply nodes = cluster_.core().ListNodes(cluster_.now());
    for (const proto::DaemonStatus& one : nodes.daemons()) {
      if (one.name() == daemon) return one;
    }
    return {};
  }
  std::string Refusal(const std::string& daemon,
                      proto::DrainRequest::Action action = proto::DrainRequest::DRAIN) {
    return std::string(cluster_.Drain(daemon, action).status().message());
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

class CoreDrainTest : public DrainFixture {};

TEST_F(CoreDrainTest, AServerWithRowsStaysUntilTheirJobHasEnded) {
  proto::Job job = CoreHarness::SomeJob(4);
  job.mutable_consistency()->mutable_async();
  job.mutable_rows()->set_buckets(8);
  job_ = cluster_.Submit(job);
  proto::NodeReady ready = CoreHarness::SomeLayout(job_);
  proto::Table* const table = ready.mutable_layout()->add_tables();
  table->set_name("items");
  table->set_columns(16);
  table->set_capacity(100);
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, ready);
  for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job_);
  ASSERT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  EXPECT_EQ(cluster_.stored().at(job_).record().placement().shard_of_bucket_size(), 8);
  ForgetSent();
  const auto begun = cluster_.Drain("s1");
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->jobs(0).stays(), "it has rows, which do not move as yet");
  cluster_.Advance(absl::Seconds(5));
  EXPECT_THAT(cluster_.Sent("s2"), IsEmpty());
  EXPECT_FALSE(cluster_.Drain("s1")->drained());
}

TEST_F(CoreDrainTest, AJobWithOneCopyLeavesByASecondOne) {
  Train(0);
  ASSERT_EQ(Stored(0).daemon(), "s1");
  const auto begun = cluster_.Drain("s1");
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_EQ(begun->shards_left(), 2u);
  EXPECT_FALSE(begun->drained());
  EXPECT_EQ(begun->jobs(0).stays(), "");
  EXPECT_THAT(cluster_.Sent("s2"), IsSupersetOf({"InstallBackup 1 0", "InstallBackup 1 1"}));
  EXPECT_TRUE(Stored(0).backup_is_partial()) << "it is saved before anybody is told";
  SayInstalled("s2", 0, Generation(0));
  const proto::MoveShard fill = cluster_.Newest("s1", Message::kMoveShard).move_shard();
  EXPECT_EQ(fill.generation(), 2u);
  EXPECT_THAT(fill.backup_endpoint(), HasSubstr("address-s2"));
  ForgetSent();
  Report("s1", 0, 2, false, /*missing=*/3);
  cluster_.Advance(absl::Milliseconds(200));
  EXPECT_EQ(Stored(0).daemon(), "s1") << "it is not whole";
  Report("s1", 0, 2, false);
  cluster_.Advance(absl::Milliseconds(200));
  EXPECT_EQ(Stored(0).daemon(), "s2");
  EXPECT_EQ(Stored(0).backup(), "") << "one copy again";
  EXPECT_EQ(Generation(0), 3u);
  EXPECT_THAT(cluster_.Sent("s2"), Contains("MoveShard 1 0"));
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("MoveShard 1 0"));
  EXPECT_THAT(cluster_.Sent("s1"), Contains("RemoveShard 1 0"));
  EXPECT_EQ(cluster_.Newest("s1", Message::kRemoveShard).remove_shard().generation(), 3u);
  EXPECT_EQ(Tell("s1").shards_left(), 1u);
  FillAll();
  EXPECT_TRUE(Tell("s1").drained());
  EXPECT_TRUE(Shown("s1").drained());
  EXPECT_THAT(Shown("s1").jobs(), IsEmpty());
  EXPECT_THAT(Servers(), ElementsAre("s2"));
  // Its end does not affect the job.
  cluster_.Disconnect("s1");
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING) << cluster_.Status(job_).reason();
  EXPECT_EQ(cluster_.Status(job_).reason(), "");
}

TEST_F(CoreDrainTest, AJobWithTwoCopiesNeverHasOne) {
  Train(1);
  Join("s3");
  ForgetSent();
  ASSERT_TRUE(cluster_.Drain("s1").ok());
  EXPECT_THAT(cluster_.Sent("s3"), IsSupersetOf({"InstallBackup 1 0", "InstallBackup 1 1",
                                                 "InstallBackup 1 2", "InstallBackup 1 3"}));
  // Shard 0 is on s1, and moves to s2, which fills s3.
  ASSERT_EQ(Stored(0).daemon(), "s1");
  EXPECT_EQ(Stored(0).backup(), "s2");
  EXPECT_EQ(Stored(0).next_backup(), "s3");
  EXPECT_TRUE(Stored(0).replaces_primary());
  const proto::InstallBackup install =
      cluster_.Newest("s3", Message::kInstallBackup).install_backup();
  const auto shard = static_cast<int>(install.backup().shard());
  EXPECT_EQ(install.record().placement().shard_generations(shard), 2u);
  EXPECT_THAT(install.record().placement().backup_endpoints(shard), HasSubstr("address-s3"));
  SayInstalled("s3", 0, 2);
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("FillNext 1 0"));
  SayInstalled("s3", 2, 2);
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("FillNext 1 2")) << "its primary, which stays";
  EXPECT_EQ(Generation(0), 1u) << "all is as it was";
  ForgetSent();
  FillAll();
  EXPECT_EQ(Stored(0).daemon(), "s2");
  EXPECT_EQ(Stored(0).backup(), "s3");
  EXPECT_FALSE(Stored(0).backup_is_partial());
  EXPECT_EQ(Generation(0), 2u);
  EXPECT_EQ(Stored(2).daemon(), "s2");
  EXPECT_EQ(Stored(2).backup(), "s3");
  const proto::MoveShard move = cluster_.Newest("s2", Message::kMoveShard).move_shard();
  EXPECT_TRUE(move.backup_is_whole());
  EXPECT_THAT(cluster_.Sent("s1"), IsSupersetOf({"RemoveShard 1 0", "RemoveShard 1 2"}));
  EXPECT_THAT(Servers(), ElementsAre("s2", "s3"));
  EXPECT_TRUE(Tell("s1").drained());
  EXPECT_EQ(cluster_.Status(job_).reason(), "");
}

TEST_F(CoreDrainTest, WhenTheDrainedServerDiesTheOthersGoOn) {
  BeginOfThree();
  Lose("s1");
  EXPECT_EQ(Stored(0).daemon(), "s2");
  EXPECT_EQ(Stored(0).next_backup(), "");
  EXPECT_EQ(Stored(0).backup(), "s3") << "a second copy is made, as ever";
  EXPECT_EQ(Generation(0), 4u) << "3 is the one that went on alone, 2 was given to the copy on s3";
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  EXPECT_TRUE(Tell("s1").drained());
}

TEST_F(CoreDrainTest, WhenTheOtherCopyDiesTheDrainedOneGoesOn) {
  BeginOfThree();
  Lose("s2");
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING);
  EXPECT_EQ(Stored(0).daemon(), "s1");
  EXPECT_EQ(Stored(0).backup(), "s3");
  EXPECT_TRUE(Stored(0).backup_is_partial());
  FillAll();
  EXPECT_EQ(Stored(0).daemon(), "s1");
  EXPECT_THAT(Tell("s1").jobs(0).stays(), HasSubstr("on another host than server s3"));
  Join("s4");
  cluster_.Advance(absl::Seconds(2));
  FillAll();
  EXPECT_THAT(Servers(), ElementsAre("s3", "s4"));
}

TEST_F(CoreDrainTest, WhenTheNextCopyDiesAllIsAsItWas) {
  BeginOfThree();
  ForgetSent();
  Lose("s3");
  EXPECT_EQ(Stored(0).daemon(), "s1");
  EXPECT_EQ(Stored(0).backup(), "s2");
  EXPECT_EQ(Stored(0).next_backup(), "");
  EXPECT_EQ(Generation(0), 1u);
  EXPECT_THAT(cluster_.Sent("s2"), Contains("FillNothing 1 0"));
  Join("s3");
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(Stored(0).next_backup(), "s3");
  EXPECT_EQ(Stored(0).next_generation(), 3u) << "2 was given out";
}

TEST_F(CoreDrainTest, ServersOnOneHostTakeOnlyCopiesOfEachOther) {
  CoreHarness cluster;
  cluster.JoinWorker("w1", 4);
  for (const char* server : {"s1", "s2"}) {
    cluster.SetHost(server, "rack7");
    cluster.JoinServer(server, 1);
  }
  const uint32_t job = cluster.Train(CoreHarness::SomeJob(4), {"w1"}, {"s1", "s2"});
  ASSERT_TRUE(cluster.Drain("s1").ok());
  EXPECT_EQ(cluster.stored().at(job).status().shards(0).backup(), "s2");
}

TEST_F(CoreDrainTest, WhatHasNowhereToGoStaysAndSaysSo) {
  Train(1);
  const auto begun = cluster_.Drain("s1");
  ASSERT_TRUE(begun.ok()) << begun.status();
  ASSERT_EQ(begun->jobs_size(), 1);
  EXPECT_EQ(begun->jobs(0).job_id(), job_);
  EXPECT_THAT(begun->jobs(0).stays(), HasSubstr("on another host than server s2"));
  cluster_.Advance(absl::Minutes(1));
  EXPECT_EQ(Stored(0).daemon(), "s1");
  EXPECT_EQ(Stored(0).backup(), "s2");
  EXPECT_TRUE(Shown("s1").draining());
  EXPECT_FALSE(Shown("s1").drained());
  Join("s3");
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(Stored(0).next_backup(), "s3");
}

TEST_F(CoreDrainTest, AServerWithoutAChunkOfTheJobIsLeftAtOnce) {
  job_ = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  const std::string empty = Stored(0).chunks() > 0 ? "s2" : "s1";
  const auto drained = cluster_.Drain(empty);
  ASSERT_TRUE(drained.ok());
  EXPECT_TRUE(drained->drained());
  EXPECT_THAT(cluster_.Sent(empty), Contains("RemoveJob 1"));
  cluster_.Disconnect(empty);
  cluster_.Advance(absl::Seconds(10));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING) << cluster_.Status(job_).reason();
}

TEST_F(CoreDrainTest, LastWordsOfADaemonThatWasJustLeftAreNoRefusal) {
  job_ = cluster_.Train(CoreHarness::SomeJob(4), {"w1", "w2"}, {"s1", "s2"});
  const std::string empty = Stored(0).chunks() > 0 ? "s2" : "s1";
  ASSERT_TRUE(cluster_.Drain(empty)->drained());
  Report(empty, 0, 0, /*is_next=*/false);
  EXPECT_THAT(cluster_.core().refusals(), IsEmpty());
  Join("s3");
  Report("s3", 0, 0, /*is_next=*/false);
  EXPECT_THAT(cluster_.core().refusals(), ElementsAre(Pair("about a job of other daemons", 1)))
      << "a stranger";
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING) << cluster_.Status(job_).reason();
}

TEST_F(CoreDrainTest, LastWordsOfADaemonWhoseShardsHaveMovedAreNoRefusal) {
  Train(0);
  ASSERT_TRUE(cluster_.Drain("s1").ok());
  for (int fills = 0; fills < 2; ++fills) FillAll();
  ASSERT_TRUE(Tell("s1").drained());
  const std::string moved = cluster_.stored().at(job_).SerializeAsString();
  Report("s1", 0, 2, /*is_next=*/false);
  EXPECT_THAT(cluster_.core().refusals(), IsEmpty());
  EXPECT_EQ(cluster_.stored().at(job_).SerializeAsString(), moved) << "nor do they change anything";
}

TEST_F(CoreDrainTest, TheLastServerIsNotDrainedUnderAJob) {
  Train(0);
  ASSERT_TRUE(cluster_.Drain("s2").ok());
  EXPECT_EQ(Refusal("s1"),
            "server s1 cannot be drained: no other server is there to take what it has of job 1 "
            "(job)");
  EXPECT_FALSE(Shown("s1").draining()) << "nothing changes";
  ASSERT_TRUE(cluster_.core().Cancel(JobId(job_), cluster_.now()).ok());
  const auto drained = cluster_.Drain("s1");
  ASSERT_TRUE(drained.ok());
  EXPECT_TRUE(drained->drained());
  EXPECT_EQ(drained->note(), "no other server is left: jobs that need one do not start");
}

TEST_F(CoreDrainTest, WhatIsNotThereIsRefusedByName) {
  EXPECT_EQ(Refusal("s9"), "no server or worker is called \"s9\" (see strata nodes)");
  EXPECT_EQ(cluster_.Drain("s9").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Refusal("s1", Request::UNDO), "server s1 is not being drained");
  cluster_.FailNextPersist();
  EXPECT_EQ(Refusal("s1"), "disk full");
  EXPECT_FALSE(Shown("s1").draining()) << "what is not saved does not count";
}

TEST_F(CoreDrainTest, AskedTwiceItGoesOnAndBeginsNothingAnew) {
  Train(1);
  Join("s3");
  ASSERT_TRUE(cluster_.Drain("s1").ok());
  ForgetSent();
  cluster_.FailNextPersist();
  const auto again = cluster_.Drain("s1");
  ASSERT_TRUE(again.ok()) << "nothing is to be saved: " << again.status();
  EXPECT_TRUE(again->draining());
  EXPECT_EQ(again->shards_left(), 4u);
  for (const char* server : {"s1", "s2", "s3"}) EXPECT_THAT(cluster_.Sent(server), IsEmpty());
}

TEST_F(CoreDrainTest, NothingNewIsPlacedThere) {
  ASSERT_TRUE(cluster_.Drain("s1").ok());
  Train(0);
  EXPECT_THAT(Servers(), ElementsAre("s2"));
  EXPECT_EQ(cluster_.Status(job_).reason(), "without server s1: server s1 is being drained");
}

TEST_F(CoreDrainTest, FailedFillsAreTriedElsewhereAfterAPause) {
  Train(0);
  ASSERT_TRUE(cluster_.Drain("s1").ok());
  Report("s1", 0, 2, false, 1, /*waits_ms=*/10000);
  EXPECT_EQ(Stored(0).backup(), "");
  EXPECT_THAT(cluster_.Sent("s2"), Contains("RemoveShard 1 0"));
  Join("s3");
  EXPECT_EQ(Stored(0).backup(), "") << "not at once";
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(Stored(0).backup(), "s3");
  EXPECT_EQ(Generation(0), 4u);
}

TEST_F(CoreDrainTest, AFewCopiesAreFilledAtOnce) {
  CoordinatorCore::Options options;
  options.jobs.fills_per_server = 2;
  CoreHarness cluster(options);
  cluster.JoinWorker("w1", 4);
  for (const char* server : {"s1", "s2"}) cluster.JoinServer(server, 4);
  proto::Job job = CoreHarness::SomeJob(4);
  job.set_chunk_elements(256);
  const uint32_t id = cluster.Train(job, {"w1"}, {"s1", "s2"});
  ASSERT_TRUE(cluster.Drain("s1").ok());
  cluster.Advance(absl::Seconds(1));
  int fills = 0;
  for (const auto& shard : cluster.stored().at(id).status().shards()) {
    fills += shard.backup_is_partial();
  }
  EXPECT_EQ(fills, 2);
}

TEST_F(CoreDrainTest, UndoEndsWhatIsUnderWay) {
  Train(0);
  ASSERT_TRUE(cluster_.Drain("s1").ok());
  ASSERT_EQ(Stored(0).backup(), "s2");
  ForgetSent();
  const auto undone = cluster_.Drain("s1", Request::UNDO);
  ASSERT_TRUE(undone.ok());
  EXPECT_FALSE(undone->draining());
  EXPECT_EQ(Stored(0).backup(), "");
  EXPECT_EQ(Stored(0).daemon(), "s1");
  EXPECT_THAT(cluster_.Sent("s2"), Contains("RemoveShard 1 0"));
}

TEST_F(CoreDrainTest, UndoLeavesTwoCopiesWhereTheyAre) {
  BeginOfThree();
  ASSERT_TRUE(cluster_.Drain("s1", Request::UNDO).ok());
  EXPECT_THAT(Servers(), ElementsAre("s1", "s2"));
  EXPECT_THAT(cluster_.Sent("s3"), IsSupersetOf({"RemoveShard 1 0", "RemoveShard 1 3"}));
  // A report from just before is outdated.
  Report("s2", 0, 2, /*is_next=*/true);
  EXPECT_EQ(Stored(0).daemon(), "s1");
}

TEST_F(CoreDrainTest, ARestartedCoordinatorGoesOn) {
  Train(1);
  Join("s3");
  ASSERT_TRUE(cluster_.Drain("s1").ok());
  SayInstalled("s3", 0, 2);
  cluster_.Restart();
  cluster_.JoinWorker("w1", 2, {job_});
  cluster_.JoinWorker("w2", 2, {job_});
  Join("s1", {job_});
  ForgetSent();
  Join("s2", {job_});
  EXPECT_THAT(cluster_.Sent("s2"), Contains("FillNext 1 0"));
  Join("s3", {job_});
  EXPECT_THAT(cluster_.Sent("s3"), Contains("InstallBackup 1 0"));
  EXPECT_TRUE(Shown("s1").draining());
  FillAll();
  EXPECT_THAT(Servers(), ElementsAre("s2", "s3"));
  EXPECT_EQ(cluster_.Status(job_).state(), proto::RUNNING) << cluster_.Status(job_).reason();
}

TEST_F(CoreDrainTest, AServerThatIsBackIsToldAgainWhichNextCopyItIsToForget) {
  BeginOfThree();
  SayInstalled("s3", 0, 2);
  cluster_.Disconnect("s3");
  // The copy of shard 0 alone is dropped: the server stays in the job, for the others.
  Report("s2", 0, 2, /*is_next=*/true, 1, /*waits_ms=*/10000);
  ASSERT_EQ(Stored(0).next_backup(), "");
  ForgetSent();
  Join("s3", {job_});
  EXPECT_THAT(cluster_.Sent("s3"), Contains("RemoveShard 1 0"));
  EXPECT_EQ(cluster_.Newest("s3", Message::kRemoveShard).remove_shard().generation(), 3u);
}

TEST_F(CoreDrainTest, WhatWasForgottenToBeFilledIsSaidAgain) {
  Train(1);
  Report("s2", 0, 7, /*is_next=*/true);
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("FillNothing 1 0"));
}

TEST_F(CoreDrainTest, AWorkerTakesNoNewNodeAndKeepsThoseOfRunningJobs) {
  Train(0);
  const auto begun = cluster_.Drain("w1");
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(begun->nodes_left(), 1u);
  EXPECT_EQ(begun->role(), proto::WORKER);
  const uint32_t second = cluster_.Submit(CoreHarness::SomeJob(2));
  cluster_.Finished("w2", job_);
  cluster_.Finished("w1", job_);
  EXPECT_TRUE(Shown("w1").drained());
  EXPECT_THAT(cluster_.Status(second).nodes(0).daemon(), "w2");
  EXPECT_THAT(cluster_.Sent("w1"), Not(Contains("StartNode 2")));
  const auto last = cluster_.Drain("w2");
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last->note(), "no other worker is left: jobs wait until there is one");
  const uint32_t third = cluster_.Submit(CoreHarness::SomeJob(2));
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(cluster_.Status(third).state(), proto::QUEUED) << cluster_.Status(third).reason();
  ASSERT_TRUE(cluster_.Drain("w1", Request::UNDO).ok());
  EXPECT_EQ(cluster_.Status(third).state(), proto::RUNNING);
}

}  // namespace

}  // namespace strata::server

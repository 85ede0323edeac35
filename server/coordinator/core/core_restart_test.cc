// Event-driven tests of jobs that fail and resume by themselves.
#include <string>
#include <vector>

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Message = proto::CoordinatorMessage;

class CoreRestartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinServer("s2", 1);
    cluster_.JoinWorker("w1", 2);
    cluster_.JoinWorker("w2", 2);
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(4);
    job.mutable_checkpoint()->set_dir("/c");
    job.mutable_checkpoint()->set_every_steps(10);
    job.mutable_restart()->set_attempts(3);
    job.set_chunk_elements(256);
    return job;
  }
  proto::NodeReady Layout(uint32_t job) const {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_can_resume(true);
    return ready;
  }
  // From the start of its nodes to training.
  void Train(uint32_t job) {
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job));
    for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job);
    ASSERT_TRUE(cluster_.stored().at(job).training()) << cluster_.Status(job).reason();
    for (const char* daemon : {"w1", "w2", "s1", "s2"}) cluster_.Sent(daemon);
  }
  uint32_t SubmitAndTrain(const proto::Job& wish) {
    const uint32_t job = cluster_.Submit(wish);
    cluster_.Found(job, CheckpointFound());
    Train(job);
    cluster_.TakeQueries();
    return job;
  }
  void WriteParts(uint32_t job, uint64_t clock) {
    cluster_.WritePart("s1", job, clock, 0);
    cluster_.WritePart("s2", job, clock, 1);
  }
  static CheckpointFound FoundOf(const CheckpointToKeep& kept) {
    CheckpointFound found{.manifest = kept.manifest};
    EXPECT_TRUE(found.record.ParseFromString(kept.manifest.record));
    return found;
  }
  CheckpointFound Write(uint32_t job, uint64_t clock) {
    WriteParts(job, clock);
    const CheckpointFound found = FoundOf(cluster_.TakeToKeep().at(0));
    cluster_.Kept(job, clock);
    return found;
  }
  absl::Duration Delay(uint32_t job) const {
    return absl::FromUnixMillis(cluster_.stored().at(job).resume().not_before_ms()) -
           cluster_.now();
  }

  CoreHarness cluster_;
};

TEST_F(CoreRestartTest, AFailedJobGoesOnFromItsNewestCheckpoint) {
  const uint32_t job = SubmitAndTrain(Job());
  const uint64_t token = cluster_.stored().at(job).record().token();
  const int64_t started_ms = cluster_.Status(job).started_ms();
  const CheckpointFound found = Write(job, 20);
  cluster_.Failed("w1", job, "boom");
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("w2"), ElementsAre("StopNode 1"));
  EXPECT_THAT(cluster_.Sent("s1"), ElementsAre("RemoveJob 1"));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  EXPECT_THAT(cluster_.Status(job).reason(), HasSubstr("goes on after it failed: worker w1"));
  EXPECT_EQ(cluster_.Status(job).progress().eta_s(), -1);
  EXPECT_EQ(cluster_.core().ListNodes(cluster_.now()).daemons(2).slots_used(), 0);
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_EQ(queries.size(), 1);
  EXPECT_EQ(queries[0].resume_dir, "/c");
  cluster_.Found(job, found);
  EXPECT_THAT(cluster_.Sent("w1"), IsEmpty()) << "it is left alone for a while";
  cluster_.Advance(absl::Seconds(1));
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StartNode 1"));
  const proto::JobRecord record = cluster_.Newest("w1", Message::kStartNode).start_node().record();
  EXPECT_EQ(record.attempt(), 1);
  EXPECT_NE(record.token(), token) << "of the attempt before may be processes still";
  EXPECT_NE(record.token(), 0);
  EXPECT_EQ(record.resume().clock(), 20);
  Train(job);
  const proto::JobStatus status = cluster_.Status(job);
  ASSERT_EQ(status.restarts_size(), 1);
  EXPECT_EQ(status.restarts(0).step(), 20);
  EXPECT_EQ(status.restarts(0).reason(), "worker w1 (node 0, ranks 0 to 1): boom");
  EXPECT_EQ(status.started_ms(), started_ms);
  EXPECT_EQ(status.nodes_size(), 2);
  EXPECT_EQ(status.shards_size(), 2);
  EXPECT_EQ(cluster_.stored().at(job).node_finished_size(), 2);
  for (const char* worker : {"w1", "w2"}) cluster_.Finished(worker, job);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreRestartTest, StatusCountsTheStepsOfRanksThatTakeLocalSteps) {
  proto::Job wish = Job();
  wish.mutable_optimizer()->mutable_mean();
  wish.mutable_consistency()->mutable_lazy()->set_staleness(0);
  wish.mutable_consistency()->mutable_lazy()->set_local_steps(16);
  const uint32_t job = SubmitAndTrain(wish);
  const CheckpointFound found = Write(job, 20);
  EXPECT_EQ(cluster_.Status(job).checkpoints().newest_step(), 320);
  cluster_.Failed("w1", job, "boom");
  cluster_.Found(job, found);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(cluster_.Newest("w1", Message::kStartNode).start_node().record().resume().step(), 20);
  Train(job);
  EXPECT_EQ(cluster_.Status(job).restarts(0).step(), 320);
  EXPECT_EQ(cluster_.Status(job).checkpoints().resumed_step(), 320);
  EXPECT_EQ(cluster_.Status(job).progress().step(), 320);
}

TEST_F(CoreRestartTest, WhatIsSaidOfAnEarlierAttemptChangesNothing) {
  const uint32_t job = SubmitAndTrain(Job());
  cluster_.Failed("w1", job, "boom");
  cluster_.Failed("w2", job, "boom, too");
  EXPECT_EQ(cluster_.Status(job).restarts_size(), 1) << "it has failed once";
  cluster_.Found(job, absl::NotFoundError("none"));
  cluster_.Advance(absl::Seconds(1));
  const auto say_all = [&] {
    cluster_.SetAttempt(job, 0);
    cluster_.Ready("w1", Layout(job));
    cluster_.Installed("s1", job, "late", /*is_damaged=*/true);
    cluster_.Report("w1", job, 0, 50);
    cluster_.Finished("w1", job);
    cluster_.Finished("w2", job);
    cluster_.Failed("w1", job, "late");
    cluster_.SetAttempt(job, 1);
    EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
    EXPECT_EQ(cluster_.Status(job).restarts_size(), 1);
    EXPECT_EQ(cluster_.Status(job).progress().step(), 0);
  };
  say_all();
  EXPECT_EQ(cluster_.Status(job).reason(), "starts its ranks");
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job));
  say_all();
  for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job);
  say_all();
  proto::DaemonMessage message;
  proto::CheckpointPart* part = message.mutable_checkpoint_part();
  part->set_job_id(job);
  part->set_token(77);  // of the first attempt
  part->set_clock(10);
  cluster_.Send("s1", message);
  EXPECT_FALSE(cluster_.Status(job).checkpoints().has_writing_step());
}

TEST_F(CoreRestartTest, OnlySoManyRestartsAreTriedWithinTheHours) {
  const uint32_t job = SubmitAndTrain(Job());
  std::vector<absl::Duration> delays;
  const auto fail_and_train = [&] {
    cluster_.Failed("w1", job, "boom");
    delays.push_back(Delay(job));
    cluster_.Found(job, absl::NotFoundError("none"));
    cluster_.Advance(delays.back());
    Train(job);
  };
  for (int i = 0; i < 3; ++i) fail_and_train();
  EXPECT_THAT(delays, ElementsAre(absl::Milliseconds(500), absl::Seconds(1), absl::Seconds(2)));
  cluster_.Advance(absl::Hours(1));
  fail_and_train();
  EXPECT_EQ(cluster_.Status(job).restarts_size(), 4);
  fail_and_train();
  fail_and_train();
  cluster_.Failed("w2", job, "boom");
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(), "worker w2 (node 1, ranks 2 to 3): boom");
}

TEST_F(CoreRestartTest, ANewCheckpointMakesTheNextDelayShortAgain) {
  const uint32_t job = SubmitAndTrain(Job());
  for (const absl::Duration delay : {absl::Milliseconds(500), absl::Seconds(1)}) {
    cluster_.Failed("w1", job, "boom");
    EXPECT_EQ(Delay(job), delay);
    cluster_.Found(job, absl::NotFoundError("none"));
    cluster_.Advance(absl::Seconds(5));
    Train(job);
  }
  Write(job, 10);
  cluster_.Failed("w1", job, "boom");
  EXPECT_EQ(Delay(job), absl::Milliseconds(500));
}

TEST_F(CoreRestartTest, AJobThatHasNeverTrainedIsNotStartedAgain) {
  const uint32_t job = cluster_.Submit(Job());
  cluster_.Found(job, CheckpointFound());
  cluster_.Failed("w1", job, "no such program");
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
}

TEST_F(CoreRestartTest, AJobThatHasNeverTrainedIsStartedAgainWhereWhatDiedWasNotItsDoing) {
  const auto submit = [this] {
    const uint32_t job = cluster_.Submit(Job());
    cluster_.Found(job, CheckpointFound());
    EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
    return job;
  };
  const auto goes_on = [this](uint32_t job, const std::string& why) {
    EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED) << cluster_.Status(job).reason();
    ASSERT_EQ(cluster_.Status(job).restarts_size(), 1) << why;
    EXPECT_THAT(cluster_.Status(job).restarts(0).reason(), HasSubstr(why));
    ASSERT_TRUE(cluster_.core().Cancel(JobId(job), cluster_.now()).ok());
  };
  uint32_t job = submit();
  proto::DaemonMessage killed;
  killed.mutable_node_failed()->set_job_id(job);
  killed.mutable_node_failed()->set_reason("rank 0: killed by signal 9");
  killed.mutable_node_failed()->set_incarnation(1);
  killed.mutable_node_failed()->set_is_death(true);
  cluster_.Send("w1", killed);
  goes_on(job, "killed by signal 9");

  job = submit();
  cluster_.Disconnect("w2");
  cluster_.Advance(absl::Seconds(3));
  goes_on(job, "w2");
  cluster_.JoinWorker("w2", 2);

  job = submit();
  cluster_.Restart();
  for (const char* server : {"s1", "s2"}) cluster_.JoinServer(server, 1);
  for (const char* worker : {"w1", "w2"}) cluster_.JoinWorker(worker, 2, {job});
  goes_on(job, "the coordinator was restarted while the job was starting");
}

TEST_F(CoreRestartTest, AManifestInTheWritingIsWaitedForAndOnesThatAreWholeComeAfterIt) {
  const uint32_t job = SubmitAndTrain(Job());
  WriteParts(job, 10);
  WriteParts(job, 20);
  cluster_.WritePart("s1", job, 30, 0);
  ASSERT_EQ(cluster_.TakeToKeep().size(), 1);
  cluster_.Failed("w1", job, "boom");
  EXPECT_THAT(cluster_.TakeQueries(), IsEmpty());
  cluster_.Advance(absl::Seconds(3));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  cluster_.Kept(job, 10);
  EXPECT_THAT(cluster_.TakeQueries(), IsEmpty());
  const std::vector<CheckpointToKeep> second = cluster_.TakeToKeep();
  ASSERT_EQ(second.size(), 1);
  const CheckpointFound found = FoundOf(second[0]);
  EXPECT_EQ(found.manifest.clock, 20);
  EXPECT_EQ(found.record.placement().shard_of_chunk_size(), 4) << "of the attempt that wrote it";
  EXPECT_EQ(found.record.attempt(), 0);
  cluster_.Kept(job, 20);
  EXPECT_EQ(cluster_.TakeQueries().size(), 1);
  EXPECT_FALSE(cluster_.Status(job).checkpoints().has_writing_step()) << "30 is never whole";
  cluster_.Found(job, found);
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
  Train(job);
  EXPECT_EQ(cluster_.Status(job).restarts(0).step(), 20);
}

TEST_F(CoreRestartTest, ItGoesOnWhereTheCoordinatorWasRestartedMeanwhile) {
  const uint32_t job = SubmitAndTrain(Job());
  const CheckpointFound found = Write(job, 10);
  cluster_.Failed("w1", job, "boom");
  cluster_.Restart();
  ASSERT_EQ(cluster_.TakeQueries().size(), 2) << "the second one is the new process's";
  SetUp();
  cluster_.Found(job, found);
  cluster_.Advance(absl::Seconds(1));
  Train(job);
  EXPECT_EQ(cluster_.Status(job).restarts_size(), 1);
  // And while it runs: no daemon comes back.
  cluster_.Restart();
  cluster_.Advance(absl::Seconds(31));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  ASSERT_EQ(cluster_.Status(job).restarts_size(), 2);
  EXPECT_THAT(cluster_.Status(job).restarts(1).reason(), HasSubstr("did not come back"));
  cluster_.Found(job, found);
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED) << "whatever nodes there are now";
  SetUp();
  cluster_.Advance(absl::Seconds(1));
  Train(job);
}

TEST_F(CoreRestartTest, ItWaitsForNodesThatAreGoneForGood) {
  const uint32_t job = SubmitAndTrain(Job());
  cluster_.Failed("w1", job, "boom");
  cluster_.Restart();
  cluster_.JoinServer("s1", 1);
  cluster_.JoinWorker("w1", 2);
  cluster_.Found(job, absl::NotFoundError("none"));
  cluster_.Advance(absl::Minutes(2));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED) << cluster_.Status(job).reason();
  EXPECT_THAT(cluster_.Status(job).reason(), HasSubstr("needs 4 slots"));
  cluster_.JoinWorker("w3", 2);
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
}

TEST_F(CoreRestartTest, AJobThatIsLeftAloneForAWhileHoldsNoOtherUp) {
  const uint32_t job = SubmitAndTrain(Job());
  const uint32_t other = cluster_.Submit(CoreHarness::SomeJob(4));
  EXPECT_EQ(cluster_.Status(other).state(), proto::QUEUED);
  cluster_.Failed("w1", job, "boom");
  EXPECT_EQ(cluster_.Status(other).state(), proto::RUNNING);
}

TEST_F(CoreRestartTest, AJobIsCancelledWhileItWaits) {
  const uint32_t job = SubmitAndTrain(Job());
  cluster_.Failed("w1", job, "boom");
  ASSERT_TRUE(cluster_.core().Cancel(JobId(job), cluster_.now()).ok());
  cluster_.Found(job, absl::NotFoundError("none"));
  cluster_.Advance(absl::Seconds(5));
  EXPECT_EQ(cluster_.Status(job).state(), proto::CANCELLED);
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StopNode 1"));
}

TEST_F(CoreRestartTest, WithNoneOfItsOwnItGoesOnFromWhereTheUserHadItBegin) {
  const uint32_t first = SubmitAndTrain(Job());
  const CheckpointFound found = Write(first, 10);
  for (const char* worker : {"w1", "w2"}) cluster_.Finished(worker, first);
  proto::Job wish = Job();
  wish.mutable_checkpoint()->set_dir("/d");
  const uint32_t job = cluster_.Submit(wish, "/c");
  cluster_.Found(job, found);
  Train(job);
  cluster_.Failed("w1", job, "boom");
  cluster_.TakeQueries();
  cluster_.Found(job, absl::NotFoundError("no complete checkpoint in /d"));
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_EQ(queries.size(), 1);
  EXPECT_EQ(queries[0].resume_dir, "/c");
  cluster_.Found(job, found);
  cluster_.Advance(absl::Seconds(1));
  Train(job);
  EXPECT_EQ(cluster_.Status(job).restarts(0).step(), 10);
}

TEST_F(CoreRestartTest, AFolderWithoutItsCheckpointsIsWaitedFor) {
  const uint32_t job = SubmitAndTrain(Job());
  Write(job, 10);
  cluster_.Failed("w1", job, "boom");
  cluster_.TakeQueries();
  cluster_.Found(job, absl::NotFoundError("no complete checkpoint in /c"));
  EXPECT_EQ(cluster_.Status(job).reason(),
            "waits for its checkpoints: no complete checkpoint in /c, where the job has written "
            "some: is the folder there?");
  cluster_.Advance(absl::Seconds(6));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  EXPECT_EQ(cluster_.TakeQueries().size(), 1);
}

TEST_F(CoreRestartTest, WhereAllItHasWrittenIsDamagedItBeginsAnewAndSaysSo) {
  const uint32_t job = SubmitAndTrain(Job());
  CheckpointFound found = Write(job, 10);
  Write(job, 20);
  found.manifest.clock = 20;
  found.passed_over = {"clock-30: torn"};
  cluster_.Failed("w1", job, "boom");
  cluster_.Found(job, found);
  cluster_.Advance(absl::Seconds(1));
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job));
  cluster_.Installed("s1", job, "shard-0: checksum", /*is_damaged=*/true);
  found.manifest.clock = 10;
  found.manifest.objects[0].bytes = 7;
  cluster_.Found(job, found);
  proto::CheckpointStatus shown = cluster_.Status(job).checkpoints();
  EXPECT_EQ(shown.newest_step(), 10) << "that of step 20 is gone";
  EXPECT_EQ(shown.newest_bytes(), 107);
  EXPECT_THAT(shown.passed_over(), ElementsAre("clock-30: torn", "server s1: shard-0: checksum"));
  for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job));
  cluster_.Installed("s1", job, "shard-0: checksum", /*is_damaged=*/true);
  cluster_.Found(job, absl::NotFoundError("none"));
  shown = cluster_.Status(job).checkpoints();
  EXPECT_EQ(shown.resumed_dir(), "");
  EXPECT_EQ(shown.complete(), 0);
  EXPECT_FALSE(cluster_.Newest("w1", Message::kStartNode).start_node().record().has_resume());
  Train(job);
}

// The folder may not have been mounted where it was read.
TEST_F(CoreRestartTest, WhereOneThatWasCalledDamagedIsWholeItIsTriedAgainAsOftenAsItMay) {
  const uint32_t job = SubmitAndTrain(Job());
  const CheckpointFound found = Write(job, 20);
  cluster_.Failed("w1", job, "boom");
  for (int restarts = 1; restarts <= 3; ++restarts) {
    SCOPED_TRACE(restarts);
    cluster_.Found(job, found);
    cluster_.Advance(absl::Minutes(1));
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, Layout(job));
    cluster_.TakeQueries();
    cluster_.Installed("s1", job, "shard-0: not there", /*is_damaged=*/true);
    EXPECT_EQ(cluster_.TakeQueries().at(0).below, 20);
    EXPECT_EQ(cluster_.Status(job).restarts_size(), restarts);
    cluster_.Found(job, absl::AbortedError("that of step 20 is whole"));
    if (restarts == 3) break;
    EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
    EXPECT_EQ(cluster_.Status(job).reason(), "tries again: that of step 20 is whole");
    EXPECT_THAT(cluster_.Status(job).checkpoints().passed_over(), IsEmpty());
    EXPECT_EQ(cluster_.TakeQueries().at(0).below, 0);
  }
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(), "that of step 20 is whole");
}

TEST_F(CoreRestartTest, TheProgramNamesItsOptimizerInEachAttemptAnew) {
  proto::Job wish = Job();
  wish.mutable_optimizer()->mutable_from_program();
  const uint32_t job = cluster_.Submit(wish);
  cluster_.Found(job, CheckpointFound());
  const auto train = [&] {
    proto::NodeReady ready = Layout(job);
    ready.mutable_optimizer()->mutable_adamw();
    for (const char* worker : {"w1", "w2"}) cluster_.Ready(worker, ready);
    for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job);
    ASSERT_TRUE(cluster_.stored().at(job).training()) << cluster_.Status(job).reason();
  };
  train();
  const CheckpointFound found = Write(job, 10);
  cluster_.Failed("w1", job, "boom");
  cluster_.Found(job, found);
  cluster_.Advance(absl::Seconds(1));
  train();
}

TEST_F(CoreRestartTest, AServerThatStillHoldsTheAttemptBeforeIsToldOfTheNext) {
  const uint32_t job = SubmitAndTrain(Job());
  cluster_.Disconnect("s2");
  cluster_.Failed("w1", job, "boom");
  cluster_.Found(job, absl::NotFoundError("none"));
  cluster_.Sent("s2");
  cluster_.JoinServer("s2", 1, {job});
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("Registered", "RemoveJob 1"));
  cluster_.Advance(absl::Seconds(1));
  cluster_.Disconnect("w2");
  cluster_.JoinWorker("w2", 2, {job});
  EXPECT_EQ(cluster_.Newest("w2", Message::kStartNode).start_node().record().attempt(), 1);
  Train(job);
}

// ---- clusters in the middle of an upgrade ----

constexpr uint32_t kOld = kProtocolVersionOldest;
static_assert(kOld < kProtocolVersion);

class CoreUpgradeTest : public ::testing::Test {
 protected:
  // The worker's previous process is gone.
  void Upgrade(const std::string& worker, uint32_t slots) {
    cluster_.Disconnect(worker);
    cluster_.Advance(absl::Seconds(3));
    cluster_.SetProtocol(worker, kProtocolVersion);
    cluster_.Sent(worker);
    cluster_.JoinWorker(worker, slots, {}, /*daemon_id=*/77);
  }
  // Returns the messages sent to the daemon since it registered.
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
  EXPECT_THAT(status.reason(), HasSubstr("without server s1: worker w2 speaks protocol version 6, "
                                         "server s1 version 4"));
  EXPECT_THAT(Sent("s1"), IsEmpty());
  EXPECT_EQ(cluster_.stored().at(job).protocol_version(), kProtocolVersion);
}

TEST_F(CoreUpgradeTest, AJobRunsOnWorkersOfBeforeWhereTheNewOnesHaveNoRoom) {
  JoinOldServer("s1");
  JoinOld("w1", 2);
  cluster_.JoinWorker("w2", 1);
  proto::Job some = CoreHarness::SomeJob(2);
  some.mutable_consistency()->set_preset_name("sync");
  some.set_rank_log_bytes(1 << 20);
  const uint32_t job = cluster_.Train(some, {"w1"}, {"s1"});
  EXPECT_EQ(cluster_.stored().at(job).protocol_version(), kOld);
  EXPECT_EQ(cluster_.stored().at(job).record().job().rank_log_bytes(), 1u << 20);
  const proto::Job told = cluster_.Newest("w1", Message::kRunNode).run_node().record().job();
  EXPECT_EQ(told.rank_log_bytes(), 0u) << "its ranks would refuse a field that is new to them";
  EXPECT_EQ(told.consistency().preset_name(), "");
  EXPECT_THAT(Sent("w2"), IsEmpty());
}

TEST_F(CoreUpgradeTest, WorkersOfAVersionWithoutServersAreNotTaken) {
  JoinOldServer("s1");
  cluster_.JoinWorker("w1", 2);
  const uint32_t job = cluster_.Submit(CoreHarness::SomeJob(2));
  cluster_.Advance(absl::Seconds(60));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "worker w1 speaks protocol version 6, server s1 version 4");
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
      "version 6");
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
  // A restarted coordinator knows it, too.
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

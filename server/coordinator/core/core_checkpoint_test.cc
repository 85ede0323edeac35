// Event-driven tests of checkpoints that jobs write and resume from.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/core_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Message = proto::CoordinatorMessage;

class CoreCheckpointTest : public ::testing::Test {
 protected:
  void JoinAll() {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinServer("s2", 1);
    cluster_.JoinWorker("w1", 2);
  }
  static proto::Job Job() {
    proto::Job job = CoreHarness::SomeJob(2);
    job.mutable_checkpoint()->set_dir("/c");
    job.mutable_checkpoint()->set_every_steps(10);
    job.set_chunk_elements(256);
    return job;
  }
  void Ready(uint32_t job, bool can_resume = true) {
    proto::NodeReady ready = CoreHarness::SomeLayout(job);
    ready.set_can_resume(can_resume);
    cluster_.Ready("w1", ready);
  }
  // Brings a submitted job that does not resume to training.
  void Train(uint32_t job) {
    cluster_.Found(job, CheckpointFound());
    Ready(job);
    for (const char* server : {"s1", "s2"}) cluster_.Installed(server, job);
    ASSERT_TRUE(cluster_.stored().at(job).training()) << cluster_.Status(job).reason();
  }
  void WriteParts(uint32_t job, uint64_t clock) {
    cluster_.WritePart("s1", job, clock, 0);
    cluster_.WritePart("s2", job, clock, 1);
  }
  // Another coordinator takes over, and all daemons register with the job.
  void ComeBackTo(uint32_t job) {
    cluster_.Restart();
    cluster_.JoinServer("s1", 1, {job});
    cluster_.JoinServer("s2", 1, {job});
    cluster_.JoinWorker("w1", 2, {job});
  }
  // The checkpoint that a finished job leaves.
  CheckpointFound Written(uint64_t clock) {
    const uint32_t job = cluster_.Submit(Job());
    Train(job);
    cluster_.WritePart("s1", job, clock, 0);
    cluster_.WritePart("s2", job, clock, 1);
    CheckpointFound found{.manifest = cluster_.TakeToKeep().at(0).manifest};
    EXPECT_TRUE(found.record.ParseFromString(found.manifest.record));
    cluster_.Kept(job, clock);
    cluster_.Finished("w1", job);
    cluster_.TakeQueries();
    return found;
  }

  CoreHarness cluster_;
};

TEST_F(CoreCheckpointTest, OncePartsOfAllShardsAreThereTheManifestIsWritten) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  cluster_.WritePart("s1", job, 10, 0);
  EXPECT_THAT(cluster_.TakeToKeep(), IsEmpty());
  EXPECT_EQ(cluster_.Status(job).checkpoints().writing_step(), 10);
  cluster_.WritePart("s2", job, 10, 1);
  const std::vector<CheckpointToKeep> to_keep = cluster_.TakeToKeep();
  ASSERT_EQ(to_keep.size(), 1);
  EXPECT_EQ(to_keep[0].dir, "/c");
  EXPECT_EQ(to_keep[0].keep, 2);
  const Manifest& manifest = to_keep[0].manifest;
  EXPECT_EQ(manifest.job, job);
  EXPECT_EQ(manifest.job_name, "job");
  EXPECT_EQ(manifest.clock, 10);
  ASSERT_EQ(manifest.objects.size(), 2);
  EXPECT_EQ(manifest.objects[1].name, "clock-00000000000000000010/shard-1-1.0");
  EXPECT_EQ(manifest.objects[1].bytes, 100);
  proto::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(manifest.record));
  EXPECT_EQ(record.token(), 0) << "it opens the shards";
  EXPECT_EQ(record.placement().shard_of_chunk_size(), 4);
  EXPECT_EQ(record.layout().elements(), 1000);
  EXPECT_EQ(cluster_.Status(job).checkpoints().complete(), 0);
  cluster_.Kept(job, 10);
  const proto::CheckpointStatus shown = cluster_.Status(job).checkpoints();
  EXPECT_EQ(shown.complete(), 1);
  EXPECT_EQ(shown.newest_step(), 10);
  EXPECT_EQ(shown.newest_bytes(), 200);
  EXPECT_FALSE(shown.has_writing_step());
  EXPECT_EQ(cluster_.stored().at(job).status().checkpoints().newest_step(), 10);
}

TEST_F(CoreCheckpointTest, APartOrAManifestThatFailsIsSaidAndTrainingGoesOn) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  cluster_.WritePart("s1", job, 10, 0, "no space left");
  EXPECT_EQ(cluster_.Status(job).checkpoints().problem(), "step 10: server s1: no space left");
  cluster_.WritePart("s1", job, 20, 0);
  cluster_.WritePart("s2", job, 20, 1);
  EXPECT_EQ(cluster_.TakeToKeep().size(), 1);
  cluster_.Kept(job, 20, absl::UnavailableError("no answer"));
  EXPECT_EQ(cluster_.Status(job).checkpoints().problem(), "step 20: no answer");
  EXPECT_EQ(cluster_.Status(job).checkpoints().failed(), 2);
  EXPECT_THAT(cluster_.warnings(), ElementsAre(HasSubstr("checkpoint of step 20: no answer")));
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING);
}

TEST_F(CoreCheckpointTest, PartsThatOthersSayAreThereDoNotCount) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  cluster_.WritePart("s1", job, 10, 0);
  cluster_.WritePart("w1", job, 10, 1);
  proto::DaemonMessage message;
  proto::CheckpointPart* part = message.mutable_checkpoint_part();
  part->set_job_id(job);
  part->set_clock(10);
  part->set_shard(1);
  part->set_token(cluster_.stored().at(job).record().token() + 1);
  cluster_.Send("s2", message);
  EXPECT_THAT(cluster_.TakeToKeep(), IsEmpty());
}

TEST_F(CoreCheckpointTest, WhatIsWrittenAfterTheJobsEndIsKeptStill) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  cluster_.WritePart("s1", job, 10, 0);
  cluster_.Finished("w1", job);
  cluster_.WritePart("s2", job, 10, 1);
  EXPECT_EQ(cluster_.TakeToKeep().size(), 1);
  cluster_.Kept(job, 10);
  EXPECT_EQ(cluster_.Status(job).checkpoints().complete(), 1);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FINISHED);
}

TEST_F(CoreCheckpointTest, AfterItsOwnRestartTheCoordinatorKeepsWhatIsWrittenFromThenOn) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  cluster_.WritePart("s1", job, 10, 0);
  cluster_.Advance(absl::Seconds(2));
  cluster_.Finished("w1", 77);  // saves nothing
  cluster_.Kept(job, 5);
  cluster_.Restart();
  EXPECT_FALSE(cluster_.Status(job).checkpoints().has_writing_step()) << "its parts are forgotten";
  cluster_.JoinServer("s1", 1, {job});
  cluster_.JoinServer("s2", 1, {job});
  cluster_.JoinWorker("w1", 2, {job});
  cluster_.WritePart("s1", job, 20, 0);
  cluster_.WritePart("s2", job, 20, 1);
  const std::vector<CheckpointToKeep> to_keep = cluster_.TakeToKeep();
  ASSERT_EQ(to_keep.size(), 1);
  proto::JobRecord record;
  ASSERT_TRUE(record.ParseFromString(to_keep[0].manifest.record));
  EXPECT_EQ(record.placement().shard_of_chunk_size(), 4);
}

TEST_F(CoreCheckpointTest, WhatWasCompleteBeforeATakeoverIsSaidAgainAndNotCompletedAgain) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  for (const uint64_t clock : {10, 20}) WriteParts(job, clock);
  for (const uint64_t clock : {10, 20}) cluster_.Kept(job, clock);
  cluster_.TakeToKeep();
  ComeBackTo(job);
  for (const uint64_t clock : {10, 20}) WriteParts(job, clock);
  EXPECT_THAT(cluster_.TakeToKeep(), IsEmpty());
  const proto::CheckpointStatus shown = cluster_.Status(job).checkpoints();
  EXPECT_EQ(shown.complete(), 2);
  EXPECT_EQ(shown.failed(), 0);
  EXPECT_FALSE(shown.has_writing_step());
  WriteParts(job, 30);
  ASSERT_EQ(cluster_.TakeToKeep().size(), 1);
  cluster_.Kept(job, 30);
  EXPECT_EQ(cluster_.Status(job).checkpoints().newest_step(), 30);
}

TEST_F(CoreCheckpointTest, OneThatBecameWholeWithoutACoordinatorIsCompletedByTheNext) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  WriteParts(job, 10);
  cluster_.TakeToKeep();
  cluster_.Kept(job, 10);
  cluster_.WritePart("s1", job, 20, 0);
  ComeBackTo(job);
  // First the recent messages are repeated, then come those that nobody could receive.
  WriteParts(job, 10);
  WriteParts(job, 20);
  const std::vector<CheckpointToKeep> to_keep = cluster_.TakeToKeep();
  ASSERT_EQ(to_keep.size(), 1);
  EXPECT_EQ(to_keep[0].manifest.clock, 20);
  cluster_.Kept(job, 20);
  EXPECT_EQ(cluster_.Status(job).checkpoints().complete(), 2);
  EXPECT_EQ(cluster_.Status(job).checkpoints().problem(), "");
}

TEST_F(CoreCheckpointTest, OneThatIsPastIsNoProblem) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  Train(job);
  WriteParts(job, 10);
  cluster_.Kept(job, 10, absl::OutOfRangeError("that of clock 20 is complete"));
  EXPECT_THAT(cluster_.warnings(), IsEmpty());
  EXPECT_EQ(cluster_.Status(job).checkpoints().failed(), 0);
}

TEST_F(CoreCheckpointTest, AJobThatGoesOnIsStartedWithWhatWasFound) {
  JoinAll();
  const CheckpointFound found = Written(10);
  proto::Job wish = Job();
  wish.mutable_checkpoint()->set_dir("/d/");
  wish.set_chunk_elements(0);
  const uint32_t job = cluster_.Submit(wish, "/c//");
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_EQ(queries.size(), 1);
  EXPECT_EQ(queries[0].job, job);
  EXPECT_EQ(queries[0].own_dir, "/d") << "one name for one folder";
  EXPECT_EQ(queries[0].resume_dir, "/c");
  EXPECT_EQ(queries[0].below, 0);
  cluster_.Advance(absl::Seconds(1));
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  EXPECT_THAT(cluster_.TakeQueries(), IsEmpty()) << "one look at a time";
  cluster_.Found(job, found);
  const proto::JobRecord started = cluster_.Newest("w1", Message::kStartNode).start_node().record();
  EXPECT_EQ(started.job_id(), job);
  EXPECT_EQ(started.resume().clock(), 10);
  EXPECT_EQ(started.resume().dir(), "/c");
  Ready(job);
  const proto::Resume resume =
      cluster_.Newest("s1", Message::kInstallJob).install_job().record().resume();
  EXPECT_EQ(resume.objects_size(), 2);
  EXPECT_EQ(resume.object_of_chunk_size(), 4) << "chunks as those of the checkpoint";
  EXPECT_EQ(cluster_.Status(job).checkpoints().resumed_step(), 10);
  EXPECT_EQ(cluster_.Status(job).checkpoints().resumed_dir(), "/c");
}

TEST_F(CoreCheckpointTest, AJobWithNothingToGoOnFromFails) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job(), "/other");
  cluster_.Found(job, absl::NotFoundError("no complete checkpoint in /other"));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(), "no complete checkpoint in /other");
}

TEST_F(CoreCheckpointTest, AStoreThatDoesNotAnswerIsLookedIntoAgain) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job(), "/other");
  cluster_.TakeQueries();
  cluster_.Found(job, absl::UnavailableError("503"));
  EXPECT_EQ(cluster_.Status(job).reason(), "waits for its checkpoints: 503");
  cluster_.Advance(absl::Seconds(4));
  EXPECT_THAT(cluster_.TakeQueries(), IsEmpty());
  cluster_.Advance(absl::Seconds(2));
  EXPECT_EQ(cluster_.TakeQueries().size(), 1);
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
}

TEST_F(CoreCheckpointTest, AJobThatIsCancelledWhileItsStoreIsLookedIntoStaysCancelled) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job(), "/other");
  ASSERT_TRUE(cluster_.core().Cancel(JobId(job), cluster_.now()).ok());
  cluster_.Found(job, absl::NotFoundError("none"));
  EXPECT_EQ(cluster_.Status(job).state(), proto::CANCELLED);
  EXPECT_EQ(cluster_.Newest("w1", Message::kStartNode).message_case(), Message::MESSAGE_NOT_SET);
}

TEST_F(CoreCheckpointTest, AJobThatLooksIntoItsStoreHoldsNoOtherUp) {
  JoinAll();
  cluster_.Submit(Job());
  const uint32_t other = cluster_.Submit(CoreHarness::SomeJob(2));
  EXPECT_EQ(cluster_.Status(other).state(), proto::RUNNING);
}

TEST_F(CoreCheckpointTest, TwoJobsDoNotWriteToOneFolder) {
  JoinAll();
  cluster_.Submit(Job());
  proto::Job second = Job();
  second.mutable_checkpoint()->set_dir("/x/..//c/");
  const auto id = cluster_.core().Submit(second, {}, 7, cluster_.now());
  EXPECT_EQ(id.status(), absl::InvalidArgumentError("checkpoint.dir: job 1 (job) writes to /c"));
}

TEST_F(CoreCheckpointTest, AJobOfAnotherModelIsRefusedByName) {
  JoinAll();
  const CheckpointFound found = Written(10);
  proto::Job wish = Job();
  wish.set_seed(9);
  const uint32_t job = cluster_.Submit(wish, "/c");
  cluster_.Found(job, found);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
  EXPECT_EQ(cluster_.Status(job).reason(),
            "cannot go on from /c (job 1, job): seed: 9, but the checkpoint's is 1");
}

TEST_F(CoreCheckpointTest, ALayoutThatIsNotTheCheckpointsIsRefused) {
  JoinAll();
  const CheckpointFound found = Written(10);
  const auto refusal = [&](const proto::NodeReady& ready) {
    const uint32_t job = cluster_.Submit(Job(), "/c");
    cluster_.Found(job, found);
    proto::NodeReady message = ready;
    message.set_job_id(job);
    cluster_.Ready("w1", message);
    EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
    return cluster_.Status(job).reason();
  };
  proto::NodeReady ready = CoreHarness::SomeLayout(1);
  EXPECT_THAT(refusal(ready), HasSubstr("does not say that it can go on"));
  ready.set_can_resume(true);
  ready.set_samples_per_epoch(999);
  EXPECT_EQ(refusal(ready), "samples of an epoch: 999, but the checkpoint's is 1000");
  ready.set_samples_per_epoch(1000);
  ready.mutable_layout()->mutable_segments(0)->set_name("v");
  EXPECT_THAT(refusal(ready), HasSubstr("tensor 0: "));
}

TEST_F(CoreCheckpointTest, AProgramWhoseModelIsSmallerThanAnyChunkGoesOn) {
  JoinAll();
  CheckpointFound found = Written(10);
  found.record.mutable_placement()->set_chunk_elements(60);
  proto::Job wish = Job();
  wish.clear_chunk_elements();
  wish.mutable_optimizer()->mutable_from_program();
  const uint32_t job = cluster_.Submit(wish, "/c");
  cluster_.Found(job, found);
  proto::NodeReady ready = CoreHarness::SomeLayout(job);
  ready.set_can_resume(true);
  *ready.mutable_optimizer() = found.record.job().optimizer();
  cluster_.Ready("w1", ready);
  EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << cluster_.Status(job).reason();
  EXPECT_EQ(cluster_.stored().at(job).record().job().chunk_elements(), 60);
}

TEST_F(CoreCheckpointTest, WhereTheCheckpointIsDamagedTheOneBeforeIsTaken) {
  JoinAll();
  const CheckpointFound found = Written(20);
  const uint32_t job = cluster_.Submit(Job(), "/c");
  cluster_.Found(job, found);
  Ready(job);
  cluster_.TakeQueries();
  cluster_.Sent("w1");
  cluster_.Sent("s2");
  cluster_.Installed("s1", job, "shard-0: checksum", /*is_damaged=*/true);
  EXPECT_EQ(cluster_.Status(job).state(), proto::QUEUED);
  EXPECT_THAT(cluster_.Status(job).checkpoints().passed_over(),
              ElementsAre("server s1: shard-0: checksum"));
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StopNode 2"));
  EXPECT_THAT(cluster_.Sent("s2"), ElementsAre("RemoveJob 2"));
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_EQ(queries.size(), 1);
  EXPECT_EQ(queries[0].below, 20);
  EXPECT_EQ(cluster_.Status(job).restarts_size(), 0) << "it has not failed";
  CheckpointFound earlier = found;
  earlier.manifest.clock = 10;
  cluster_.Found(job, earlier);
  EXPECT_THAT(cluster_.Sent("w1"), ElementsAre("StartNode 2"));
  EXPECT_EQ(cluster_.Status(job).checkpoints().resumed_step(), 10);
  Ready(job);
  cluster_.Installed("s2", job, "shard-1: checksum", /*is_damaged=*/true);
  cluster_.Found(job, absl::NotFoundError("no complete checkpoint in /c of a step before 10"));
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
}

TEST_F(CoreCheckpointTest, AServerThatCallsNothingDamagedFailsTheJob) {
  JoinAll();
  const uint32_t job = cluster_.Submit(Job());
  cluster_.Found(job, CheckpointFound());
  Ready(job);
  cluster_.Installed("s1", job, "odd", /*is_damaged=*/true);
  EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED) << "else it would start for ever";
}

// ---- the store refuses a job's state ----

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

// ---- jobs that resumed from another job's folder ----

class CoreOriginTest : public ::testing::Test {
 protected:
  CoreOriginTest() {
    cluster_.JoinServer("s1", 1);
    cluster_.JoinWorker("w1", 2);
  }
  // Brings the job to training, from the checkpoint found in its store.
  void Train(const CheckpointFound& found) {
    cluster_.Found(job_, found);
    cluster_.Advance(absl::Minutes(1));
    proto::NodeReady ready = CoreHarness::SomeLayout(job_);
    ready.set_can_resume(true);
    cluster_.Ready("w1", ready);
    cluster_.Installed("s1", job_);
    ASSERT_TRUE(cluster_.stored().at(job_).training()) << cluster_.Status(job_).reason();
    cluster_.TakeQueries();
  }
  CheckpointFound Write(uint64_t clock) {
    cluster_.WritePart("s1", job_, clock, 0);
    const std::vector<CheckpointToKeep> to_keep = cluster_.TakeToKeep();
    EXPECT_THAT(to_keep, SizeIs(1));
    if (to_keep.empty()) return {};
    cluster_.Kept(job_, clock);
    CheckpointFound found{.manifest = to_keep[0].manifest};
    EXPECT_TRUE(found.record.ParseFromString(found.manifest.record));
    return found;
  }
  // A job in /d that resumed from another job's checkpoint of step 10 in /c.
  CheckpointFound Begin() {
    proto::Job wish = CoreHarness::SomeJob(2);
    wish.mutable_checkpoint()->set_every_steps(10);
    wish.mutable_restart()->set_attempts(3);
    wish.mutable_checkpoint()->set_dir("/c");
    job_ = cluster_.Submit(wish);
    Train({});
    const CheckpointFound origin = Write(10);
    cluster_.Finished("w1", job_);
    wish.mutable_checkpoint()->set_dir("/d");
    job_ = cluster_.Submit(wish, "/c");
    Train(origin);
    return origin;
  }

  CoreHarness cluster_;
  uint32_t job_ = 0;
};

TEST_F(CoreOriginTest, WithoutTheFolderOfItsOwnItWaitsAndDoesNotGoBackToWhereItBegan) {
  Begin();
  Write(20);
  cluster_.Failed("w1", job_, "boom");
  cluster_.TakeQueries();
  cluster_.Found(job_, absl::NotFoundError("no complete checkpoint in /d"));
  EXPECT_THAT(cluster_.Status(job_).reason(), HasSubstr("is the folder there?"));
  cluster_.Advance(absl::Seconds(6));
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_THAT(queries, SizeIs(1));
  EXPECT_EQ(queries[0].resume_dir, "/d");
}

TEST_F(CoreOriginTest, WhereAllOfItsOwnAreDamagedItGoesBackToWhereItBeganAndWritesThemAnew) {
  const CheckpointFound origin = Begin();
  const CheckpointFound own = Write(40);
  cluster_.Failed("w1", job_, "boom");
  cluster_.Found(job_, own);
  cluster_.Advance(absl::Seconds(1));
  proto::NodeReady ready = CoreHarness::SomeLayout(job_);
  ready.set_can_resume(true);
  cluster_.Ready("w1", ready);
  cluster_.Installed("s1", job_, "shard-0: checksum", /*is_damaged=*/true);
  cluster_.TakeQueries();
  cluster_.Found(job_, absl::NotFoundError("no complete checkpoint in /d of a step before 40"));
  EXPECT_EQ(cluster_.TakeQueries().at(0).resume_dir, "/c");
  Train(origin);
  EXPECT_EQ(cluster_.Status(job_).checkpoints().resumed_step(), 10);
  EXPECT_EQ(cluster_.Status(job_).checkpoints().complete(), 0) << "it has none of its own";
  // The checkpoint of step 20 counts for a coordinator that takes over now, too.
  cluster_.Restart();
  cluster_.JoinServer("s1", 1, {job_});
  cluster_.JoinWorker("w1", 2, {job_});
  Write(20);
  EXPECT_EQ(cluster_.Status(job_).checkpoints().newest_step(), 20);
}

// ---- errors do not reveal jobs of other namespaces ----

class NamedJobsTest : public ::testing::Test {
 protected:
  uint32_t Submit(const std::string& tenant, const std::string& dir, const std::string& from = "") {
    proto::Job job = CoreHarness::SomeJob(1);
    job.mutable_checkpoint()->set_dir(dir);
    job.mutable_checkpoint()->set_every_steps(10);
    proto::ResumeFrom resume;
    resume.set_dir(from);
    const Submitter by{.owner = {tenant.empty() ? "" : "alice", tenant}, .sees_all = false};
    const auto id = cluster_.core().Submit(job, resume, ++token_, cluster_.now(), by);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or(JobId()).value();
  }

  CoreHarness cluster_;
  uint64_t token_ = 0;
};

TEST_F(NamedJobsTest, ANamespaceIsToldOfItsOwnJobsAndTheDefaultOneOfNoOthers) {
  const uint32_t visions = Submit("vision", "/a"), speechs = Submit("speech", "/b");
  const uint32_t defaults = Submit("", "/c"), newest = Submit("vision", "/d"), unknown = 99;
  cluster_.TakeQueries();
  // Each submits once more with all of them present.
  for (const uint32_t job : {visions, speechs, defaults, newest}) {
    cluster_.Found(job, absl::UnavailableError("503"));
  }
  cluster_.Advance(absl::Seconds(6));
  const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
  ASSERT_THAT(queries, SizeIs(4));
  const NamedJobs& in_vision = queries[0].named;
  EXPECT_TRUE(in_vision.Has(visions, true));
  EXPECT_TRUE(in_vision.Has(newest, true));
  EXPECT_FALSE(in_vision.Has(visions, /*of_this_cluster=*/false));
  for (const uint32_t job : {speechs, defaults, unknown}) EXPECT_FALSE(in_vision.Has(job, true));
  const NamedJobs& in_default = queries[2].named;
  for (const uint32_t job : {visions, speechs, newest}) EXPECT_FALSE(in_default.Has(job, true));
  for (const uint32_t job : {defaults, unknown}) EXPECT_TRUE(in_default.Has(job, true));
  EXPECT_TRUE(in_default.Has(visions, /*of_this_cluster=*/false));
}

TEST_F(NamedJobsTest, AJobThatCannotGoOnSaysWhoseCheckpointItIsToItsNamespaceAlone) {
  const uint32_t secret = Submit("speech", "/b");
  const std::string tenants[] = {"vision", "speech"};
  for (const std::string& tenant : tenants) {
    const uint32_t job = Submit(tenant, "/of-" + tenant, "/b");
    const std::vector<CheckpointQuery> queries = cluster_.TakeQueries();
    ASSERT_FALSE(queries.empty());
    CheckpointFound found;
    found.manifest.job = secret;
    found.manifest.job_name = "secret-project";
    found.record.set_cluster(queries.back().cluster);
    found.record.mutable_job()->mutable_model()->set_zoo("another");
    cluster_.Found(job, found);
    EXPECT_EQ(cluster_.Status(job).state(), proto::FAILED);
    const std::string whose = tenant == "vision" ? "another job" : "job 1, secret-project";
    EXPECT_THAT(cluster_.Status(job).reason(), HasSubstr("cannot go on from /b (" + whose + "): "));
  }
}

}  // namespace

}  // namespace strata::server

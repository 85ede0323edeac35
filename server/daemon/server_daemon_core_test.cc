#include "server/daemon/server_daemon_core.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/daemon/job_admission.h"
#include "server/testing/shard_harness.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr uint32_t kJob = 7, kAttempt = 3;
constexpr size_t kThreads = 2;

std::string Outcome(const std::string& error) {
  return error.empty() ? " is done" : absl::StrCat(" is not done: ", error);
}

std::string Text(const proto::DaemonMessage& message) {
  if (message.has_heartbeat()) {
    return absl::StrFormat("say the counts of %d copies", message.heartbeat().jobs_size());
  }
  if (message.has_job_installed()) {
    const proto::JobInstalled& said = message.job_installed();
    return absl::StrFormat("say job %d of attempt %d%s%s", said.job_id(), said.attempt(),
                           Outcome(said.error()), said.is_damaged() ? ", damaged" : "");
  }
  if (message.has_backup_installed()) {
    const proto::BackupInstalled& said = message.backup_installed();
    return absl::StrFormat("say backup %d of job %d of attempt %d in generation %d%s", said.shard(),
                           said.job_id(), said.attempt(), said.generation(), Outcome(said.error()));
  }
  if (message.has_shard_not_moved()) {
    const proto::ShardNotMoved& said = message.shard_not_moved();
    return absl::StrFormat("say shard %d of job %d of attempt %d in generation %d%s", said.shard(),
                           said.job_id(), said.attempt(), said.generation(), Outcome(said.error()));
  }
  const proto::ViewInstalled& said = message.view_installed();
  return absl::StrFormat("say change %d of job %d of attempt %d%s", said.number(), said.job_id(),
                         said.attempt(), Outcome(said.error()));
}

// Threads that hold copies of one job's shards: what they are to do, and what is said, in order.
class FakeThreads final : public ServerDaemonActions {
 public:
  // Returns the actions since the last call.
  std::vector<std::string> Done() { return std::exchange(done_, {}); }
  // Each copy that is to be taken in is refused from now on.
  void Refuse(absl::Status why) { refusal_ = std::move(why); }

  void Send(proto::DaemonMessage message) override { done_.push_back(Text(message)); }
  proto::Heartbeat MakeHeartbeat() override {
    proto::Heartbeat heartbeat;
    for (size_t i = 0; i < generations_.size(); ++i) heartbeat.add_jobs();
    return heartbeat;
  }
  absl::Status BeginInstall(size_t thread, const proto::JobRecord& record, ShardId shard,
                            ShardCopy copy) override {
    constexpr const char* kCopies[] = {"primary", "backup", "empty backup"};
    Add("begin", thread, absl::StrCat(shard.value(), ", ", kCopies[static_cast<int>(copy)]));
    if (!refusal_.ok()) return refusal_;
    generations_[{thread, shard}] = ShardGeneration(record.placement(), shard);
    return absl::OkStatus();
  }
  absl::Status EndInstall(size_t thread, JobId job) override {
    done_.push_back(absl::StrFormat("end job %d on %d", job.value(), thread));
    return absl::OkStatus();
  }
  void Load(const proto::InstallJob& /*install*/) override { done_.push_back("load"); }
  absl::Status MoveShard(size_t thread, const proto::MoveShard& move) override {
    return Advance("move", thread, move);
  }
  absl::Status FillNext(size_t thread, const proto::FillNext& fill) override {
    return Advance("fill next of", thread, fill);
  }
  absl::Status ChangeView(size_t thread, const proto::ViewChange& change) override {
    const auto copy = generations_.lower_bound({thread, ShardId(0)});
    if (copy == generations_.end() || copy->first.first != thread) {
      return absl::NotFoundError("no copy is here");
    }
    done_.push_back(absl::StrFormat("change view %d on %d", change.number(), thread));
    return change.at_clock() > 0 ? absl::OkStatus() : absl::FailedPreconditionError("pushed");
  }
  absl::StatusOr<bool> RemoveShard(size_t thread, JobId /*job*/, ShardId shard,
                                   uint32_t generation) override {
    const auto copy = generations_.find({thread, shard});
    if (copy == generations_.end()) return false;
    if (copy->second >= generation) return true;
    generations_.erase(copy);
    Add("forget", thread, absl::StrCat(shard.value()));
    return false;
  }
  void RemoveJob(JobId job) override {
    generations_.clear();
    done_.push_back(absl::StrCat("remove job ", job.value()));
  }

 private:
  void Add(const std::string& what, size_t thread, const std::string& shard) {
    done_.push_back(absl::StrFormat("%s shard %s on %d", what, shard, thread));
  }
  template <typename Asked>
  absl::Status Advance(const std::string& what, size_t thread, const Asked& asked) {
    const auto copy = generations_.find({thread, ShardId(asked.shard())});
    if (copy == generations_.end()) {
      return absl::NotFoundError(absl::StrFormat("none is on %d", thread));
    }
    if (copy->second >= asked.generation()) return absl::FailedPreconditionError("is old");
    Add(what, thread, absl::StrCat(asked.shard()));
    return absl::OkStatus();
  }

  std::map<std::pair<size_t, ShardId>, uint32_t> generations_;
  absl::Status refusal_;
  std::vector<std::string> done_;
};

// A job of four shards, in generation 2.
proto::JobRecord RecordOf(uint32_t attempt, uint32_t elements = 1 << 10) {
  JobOptions options;
  options.job = kJob;
  options.elements = elements;
  options.chunk_elements = elements / 4;
  options.shards = 4;
  options.job_text = "replicas: 1 optimizer { sgd {} } schedule { base_lr: 0.5 }";
  proto::JobRecord record = MakeRecord(options);
  record.set_attempt(attempt);
  return record;
}

// Shard 1 lies on thread 0, and shard 2 has its second copy on thread 1.
proto::CoordinatorMessage InstallOf(uint32_t attempt) {
  proto::CoordinatorMessage message;
  proto::InstallJob* const install = message.mutable_install_job();
  *install->mutable_record() = RecordOf(attempt);
  install->add_own_shards(1);
  install->add_own_shards(kNoShard);
  proto::OwnBackup* const backup = install->add_own_backups();
  backup->set_thread(1);
  backup->set_shard(2);
  return message;
}

// Shard 3 is to have its second copy on thread 1.
proto::CoordinatorMessage BackupOf(uint32_t attempt, uint32_t generation = 2,
                                   uint32_t elements = 1 << 10) {
  proto::CoordinatorMessage message;
  proto::InstallBackup* const install = message.mutable_install_backup();
  *install->mutable_record() = RecordOf(attempt, elements);
  install->mutable_record()->mutable_placement()->set_generation(generation);
  install->mutable_backup()->set_thread(1);
  install->mutable_backup()->set_shard(3);
  return message;
}

template <typename Command>
void Fill(uint32_t attempt, uint32_t shard, uint32_t generation, Command* command) {
  command->set_job_id(kJob);
  command->set_attempt(attempt);
  command->set_shard(shard);
  command->set_generation(generation);
}

proto::CoordinatorMessage MoveOf(uint32_t attempt, uint32_t shard, uint32_t generation) {
  proto::CoordinatorMessage message;
  Fill(attempt, shard, generation, message.mutable_move_shard());
  return message;
}

proto::CoordinatorMessage FillNextOf(uint32_t attempt, uint32_t shard, uint32_t generation,
                                     const std::string& endpoint = "tcp://127.0.0.1:9001") {
  proto::CoordinatorMessage message;
  Fill(attempt, shard, generation, message.mutable_fill_next());
  message.mutable_fill_next()->set_endpoint(endpoint);
  return message;
}

proto::CoordinatorMessage RemoveShardOf(uint32_t attempt, uint32_t shard, uint32_t generation) {
  proto::CoordinatorMessage message;
  Fill(attempt, shard, generation, message.mutable_remove_shard());
  return message;
}

proto::CoordinatorMessage ChangeOf(uint32_t attempt, uint64_t at_clock = 4) {
  proto::CoordinatorMessage message;
  proto::ViewChange* const change = message.mutable_change_view();
  change->set_job_id(kJob);
  change->set_attempt(attempt);
  change->set_number(5);
  change->set_at_clock(at_clock);
  return message;
}

class ServerDaemonCoreTest : public ::testing::Test {
 protected:
  // Gives the core a command, and returns its actions and replies.
  std::vector<std::string> Take(const proto::CoordinatorMessage& message) {
    core_.OnMessage(message);
    return threads_.Done();
  }

  FakeThreads threads_;
  ServerDaemonCore core_{kThreads, {.memory_bytes = 1 << 30}, &threads_};
};

TEST_F(ServerDaemonCoreTest, AJobIsInstalledOnTheThreadsThatItsPlacementNames) {
  EXPECT_THAT(Take(InstallOf(kAttempt)),
              ElementsAre("begin shard 1, primary on 0", "begin shard 2, backup on 1",
                          "end job 7 on 0", "end job 7 on 1", "say job 7 of attempt 3 is done"));
  EXPECT_THAT(core_.RunningJobs(), ElementsAre(kJob));
  EXPECT_GT(core_.admission().LimitOf(JobId(kJob), 0), 0u);
  EXPECT_GT(core_.admission().LimitOf(JobId(kJob), 1), 0u);
}

TEST_F(ServerDaemonCoreTest, AnInstallThatFailsLeavesNothingBehind) {
  threads_.Refuse(absl::InvalidArgumentError("no keys"));
  EXPECT_THAT(Take(InstallOf(kAttempt)), ElementsAre("begin shard 1, primary on 0",
                                                     "say job 7 of attempt 3 is not done: no keys",
                                                     "say the counts of 0 copies", "remove job 7"));
  EXPECT_FALSE(core_.Holds(JobId(kJob)));
  EXPECT_EQ(core_.admission().promised_bytes(), 0u);
}

TEST_F(ServerDaemonCoreTest, APlacementOfAnotherServerIsRefusedAndNoCheckpointBlamed) {
  proto::CoordinatorMessage message = InstallOf(kAttempt);
  proto::InstallJob* const install = message.mutable_install_job();
  install->mutable_record()->mutable_resume();
  install->add_own_shards(kNoShard);
  EXPECT_THAT(Take(message),
              ElementsAre("say job 7 of attempt 3 is not done: placement names 3 shards of this "
                          "server, it has 2"));
  install->mutable_own_shards()->RemoveLast();
  install->mutable_own_backups(0)->set_thread(2);
  EXPECT_THAT(Take(message),
              ElementsAre("say job 7 of attempt 3 is not done: placement names a second copy on "
                          "shard 2 of this server, it has 2"));
  EXPECT_FALSE(core_.Holds(JobId(kJob)));
}

TEST_F(ServerDaemonCoreTest, AJobThatResumesIsInstalledOnceItsImagesAreThere) {
  proto::CoordinatorMessage message = InstallOf(kAttempt);
  const proto::InstallJob& install = message.install_job();
  message.mutable_install_job()->mutable_record()->mutable_resume();
  EXPECT_THAT(Take(message),
              ElementsAre("begin shard 1, primary on 0", "begin shard 2, backup on 1", "load"));
  EXPECT_EQ(core_.EndInstall(install), absl::OkStatus());
  EXPECT_THAT(threads_.Done(), ElementsAre("end job 7 on 0", "end job 7 on 1"));
  core_.TellInstalled(install, absl::DataLossError("torn"));
  EXPECT_THAT(threads_.Done(), ElementsAre("say job 7 of attempt 3 is not done: torn, damaged"));
}

TEST_F(ServerDaemonCoreTest, CommandsOfAnEarlierAttemptChangeNothing) {
  Take(InstallOf(kAttempt));
  EXPECT_THAT(Take(InstallOf(kAttempt - 1)), IsEmpty());
  EXPECT_THAT(Take(BackupOf(kAttempt - 1)), IsEmpty());
  for (const uint32_t attempt : {kAttempt - 1, kAttempt + 1}) {
    SCOPED_TRACE(attempt);
    EXPECT_THAT(Take(MoveOf(attempt, 1, 9)), IsEmpty());
    EXPECT_THAT(Take(FillNextOf(attempt, 1, 9)), IsEmpty());
    EXPECT_THAT(Take(RemoveShardOf(attempt, 1, 9)), IsEmpty());
    EXPECT_THAT(Take(ChangeOf(attempt)), IsEmpty());
  }
  EXPECT_THAT(Take(MoveOf(kAttempt, 1, 9)), ElementsAre("move shard 1 on 0"));
}

TEST_F(ServerDaemonCoreTest, ALaterAttemptsInstallRemovesTheEarlierOneFirst) {
  Take(InstallOf(kAttempt));
  EXPECT_THAT(Take(InstallOf(kAttempt + 1)),
              ElementsAre("say the counts of 2 copies", "remove job 7",
                          "begin shard 1, primary on 0", "begin shard 2, backup on 1",
                          "end job 7 on 0", "end job 7 on 1", "say job 7 of attempt 4 is done"));
  EXPECT_THAT(
      Take(BackupOf(kAttempt + 2)),
      ElementsAre("say the counts of 2 copies", "remove job 7", "begin shard 3, empty backup on 1",
                  "say backup 3 of job 7 of attempt 5 in generation 2 is done"));
  EXPECT_EQ(core_.admission().LimitOf(JobId(kJob), 0), 0u);
}

TEST_F(ServerDaemonCoreTest, AShardThatNoThreadHoldsIsNotMoved) {
  Take(InstallOf(kAttempt));
  EXPECT_THAT(Take(MoveOf(kAttempt, 2, 9)), ElementsAre("move shard 2 on 1"));
  EXPECT_THAT(Take(MoveOf(kAttempt, 3, 9)),
              ElementsAre("say shard 3 of job 7 of attempt 3 in generation 9 is not done: none is "
                          "on 1"));
  EXPECT_THAT(Take(MoveOf(kAttempt, 1, 2)),
              ElementsAre("say shard 1 of job 7 of attempt 3 in generation 2 is not done: is old"));
}

TEST_F(ServerDaemonCoreTest, ACopyThatCannotFillAnotherSaysSoUnlessItIsToFillNone) {
  Take(InstallOf(kAttempt));
  EXPECT_THAT(Take(FillNextOf(kAttempt, 1, 9)), ElementsAre("fill next of shard 1 on 0"));
  EXPECT_THAT(Take(FillNextOf(kAttempt, 3, 9)),
              ElementsAre("say shard 3 of job 7 of attempt 3 in generation 9 is not done: none is "
                          "on 1"));
  EXPECT_THAT(Take(FillNextOf(kAttempt, 3, 9, /*endpoint=*/"")), IsEmpty());
}

TEST_F(ServerDaemonCoreTest, ABackupTakesThePlaceOfAnOlderCopy) {
  Take(BackupOf(kAttempt));
  EXPECT_THAT(Take(BackupOf(kAttempt, 4)),
              ElementsAre("forget shard 3 on 1", "begin shard 3, empty backup on 1",
                          "say backup 3 of job 7 of attempt 3 in generation 4 is done"));
  proto::CoordinatorMessage elsewhere = BackupOf(kAttempt, 5);
  elsewhere.mutable_install_backup()->mutable_backup()->set_thread(2);
  EXPECT_THAT(Take(elsewhere),
              ElementsAre("forget shard 3 on 1", "say the counts of 0 copies", "remove job 7",
                          "say backup 3 of job 7 of attempt 3 in generation 5 is not done: shard 2 "
                          "of this server is to hold a second copy, it has 2"));
}

TEST_F(ServerDaemonCoreTest, ABackupWithoutRoomIsRefusedAndTheJobForgottenWithItsLastShard) {
  Take(BackupOf(kAttempt));
  const uint64_t small = core_.admission().promised_bytes();
  ServerDaemonCore core(kThreads, {.memory_bytes = small}, &threads_);
  core.OnMessage(BackupOf(kAttempt));
  EXPECT_TRUE(core.Holds(JobId(kJob)));
  threads_.Done();
  core.OnMessage(BackupOf(kAttempt, 4, 1 << 12));
  EXPECT_THAT(threads_.Done(),
              ElementsAre("forget shard 3 on 1", "say the counts of 0 copies", "remove job 7",
                          StartsWith("say backup 3 of job 7 of attempt 3 in generation 4 is not "
                                     "done: it needs up to ")));
  EXPECT_FALSE(core.Holds(JobId(kJob)));
  EXPECT_EQ(core.admission().promised_bytes(), 0u);
}

TEST_F(ServerDaemonCoreTest, ABackupThatIsRefusedLeavesTheJobsOtherShardsAlone) {
  Take(InstallOf(kAttempt));
  const uint64_t promised = core_.admission().promised_bytes();
  threads_.Refuse(absl::UnimplementedError("no keys"));
  EXPECT_THAT(Take(BackupOf(kAttempt)),
              ElementsAre("begin shard 3, empty backup on 1",
                          "say backup 3 of job 7 of attempt 3 in generation 2 is not done: no "
                          "keys"));
  EXPECT_TRUE(core_.Holds(JobId(kJob)));
  EXPECT_EQ(core_.admission().promised_bytes(), promised);
}

TEST_F(ServerDaemonCoreTest, AJobIsRemovedWithItsLastShard) {
  Take(InstallOf(kAttempt));
  EXPECT_THAT(Take(RemoveShardOf(kAttempt, 1, 2)), IsEmpty()) << "it is not older";
  EXPECT_THAT(Take(RemoveShardOf(kAttempt, 1, 3)), ElementsAre("forget shard 1 on 0"));
  EXPECT_TRUE(core_.Holds(JobId(kJob)));
  EXPECT_THAT(Take(RemoveShardOf(kAttempt, 2, 3)),
              ElementsAre("forget shard 2 on 1", "say the counts of 0 copies", "remove job 7"));
  EXPECT_THAT(core_.RunningJobs(), IsEmpty());
}

TEST_F(ServerDaemonCoreTest, AJobIsRemovedOnce) {
  Take(InstallOf(kAttempt));
  proto::CoordinatorMessage remove;
  remove.mutable_remove_job()->set_job_id(kJob);
  EXPECT_THAT(Take(remove), ElementsAre("say the counts of 2 copies", "remove job 7"));
  EXPECT_THAT(Take(remove), IsEmpty());
}

TEST_F(ServerDaemonCoreTest, AChangeOfNodesIsInstalledOnceAllCopiesHaveItOrTheJobIsSaidToBeAway) {
  EXPECT_THAT(Take(ChangeOf(kAttempt)),
              ElementsAre("say change 5 of job 7 of attempt 3 is not done: the job is not here"));
  Take(BackupOf(kAttempt));
  EXPECT_THAT(Take(ChangeOf(kAttempt)),
              ElementsAre("change view 5 on 1", "say change 5 of job 7 of attempt 3 is done"));
  Take(InstallOf(kAttempt));
  EXPECT_THAT(Take(ChangeOf(kAttempt)), ElementsAre("change view 5 on 0", "change view 5 on 1",
                                                    "say change 5 of job 7 of attempt 3 is done"));
  EXPECT_THAT(
      Take(ChangeOf(kAttempt, /*at_clock=*/0)),
      ElementsAre("change view 5 on 0", "say change 5 of job 7 of attempt 3 is not done: pushed"));
}

TEST(BackupReport, SaysForHowLongABackupWaitsAndWhyItDoesNotFollow) {
  const absl::Time now = absl::FromUnixSeconds(100);
  BackupState state;
  state.shard = ShardId(3);
  state.generation = 4;
  state.chunks_missing = 2;
  EXPECT_EQ(ReportOf(state, now).waits_ms(), 0u);
  state.waits_since = now;
  EXPECT_EQ(ReportOf(state, now).waits_ms(), 1u) << "0 says that it does not wait";
  state.waits_since = now - absl::Milliseconds(1200);
  state.refusal = absl::AbortedError("CONFLICT");
  state.is_next = true;
  const proto::BackupReport report = ReportOf(state, now);
  EXPECT_EQ(report.shard(), 3u);
  EXPECT_EQ(report.generation(), 4u);
  EXPECT_EQ(report.waits_ms(), 1200u);
  EXPECT_EQ(report.refusal(), "CONFLICT");
  EXPECT_EQ(report.chunks_missing(), 2u);
  EXPECT_TRUE(report.is_next());
}

// 1 MiB of weights in chunks of 64 KiB over two shards, SGD, window 4: per shard 512 KiB + 64 KiB +
// 448 KiB held + 1 MiB of messages with two nodes.
constexpr uint64_t kShardBytes = (512 + 64 + 448 + 1024) << 10;

proto::InstallJob Install(uint32_t job, uint32_t nodes = 2) {
  JobOptions options;
  options.job = job;
  options.ranks = std::vector<uint32_t>(nodes, 1);
  options.elements = 1 << 18;
  options.chunk_elements = 1 << 14;
  options.shards = 2;
  options.job_text = "window: 4 optimizer { sgd {} } schedule { base_lr: 0.5 }";
  proto::InstallJob install;
  *install.mutable_record() = MakeRecord(options);
  install.add_own_shards(0);
  install.add_own_shards(1);
  return install;
}

TEST(JobAdmission, TakesJobsAsLongAsTheirMemoryFits) {
  JobAdmission admission({.memory_bytes = 4 * kShardBytes});
  EXPECT_TRUE(admission.Admit(Install(1)).ok());
  EXPECT_TRUE(admission.Admit(Install(2)).ok());
  EXPECT_EQ(admission.promised_bytes(), 4 * kShardBytes);
  EXPECT_EQ(admission.LimitOf(JobId(2), 1), kShardBytes);
  EXPECT_EQ(admission.chunk_bytes_max(), 64u << 10);
  const absl::Status refused = admission.Admit(Install(3));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message().substr(0, 57),
            "it needs up to 4.0 MiB: weights 512.0 KiB + chunk in upda");
  EXPECT_EQ(refused.message().substr(refused.message().find(';')),
            "; other jobs are promised 8.0 MiB of the limit of 8.0 MiB (--memory-limit)");
  EXPECT_EQ(admission.LimitOf(JobId(3), 0), 0u);
  admission.Release(JobId(1));
  EXPECT_TRUE(admission.Admit(Install(3)).ok());
}

TEST(JobAdmission, CountsOnlyTheShardsThatTheJobHasHere) {
  proto::InstallJob install = Install(1);
  install.set_own_shards(0, 0xffffffff);
  JobAdmission admission({.memory_bytes = kShardBytes});
  EXPECT_TRUE(admission.Admit(install).ok());
  EXPECT_EQ(admission.LimitOf(JobId(1), 0), 0u);
  EXPECT_EQ(admission.LimitOf(JobId(1), 1), kShardBytes);
}

TEST(JobAdmission, RefusesMoreNodesThanConnections) {
  JobAdmission admission({.connections_max = 5});
  EXPECT_TRUE(admission.Admit(Install(1, 3)).ok());
  EXPECT_EQ(
      admission.Admit(Install(2, 3)).message(),
      "its 3 nodes need 1 connection each at every shard; other jobs have 3 of the limit of 5 "
      "(--connections)");
  EXPECT_TRUE(admission.Admit(Install(2, 2)).ok());
  EXPECT_TRUE(admission.Admit(Install(1, 3)).ok()) << "again";
}

TEST(JobAdmission, CountsEachOfANodesConnections) {
  JobAdmission admission({.connections_max = 7});
  proto::InstallJob install = Install(1, 2);
  install.mutable_record()->mutable_job()->set_connections(3);
  EXPECT_TRUE(admission.Admit(install).ok());
  EXPECT_EQ(
      admission.Admit(Install(2, 2)).message(),
      "its 2 nodes need 1 connection each at every shard; other jobs have 6 of the limit of 7 "
      "(--connections)");
  EXPECT_TRUE(admission.Admit(Install(2, 1)).ok());
}

// 256 KiB of weights on a shard in one chunk, three nodes, each with its own copy of the weights.
constexpr uint64_t kChunkBytes = 256 << 10;

proto::InstallJob InstallWithCopies(const std::string& mode) {
  JobOptions options;
  options.job = 1;
  options.ranks = {1, 1, 1};
  options.elements = options.chunk_elements = kChunkBytes / sizeof(float);
  options.job_text =
      "window: 1 optimizer { sgd {} } schedule { base_lr: 0.5 } replicas: 1 consistency { async "
      "{ " +
      mode + " } }";
  proto::InstallJob install;
  *install.mutable_record() = MakeRecord(options);
  return install;
}

TEST(JobAdmission, ASecondCopyTakesWhatTheFirstOneDoesAlsoWhatEachNodeWasGiven) {
  // Weights, a chunk being updated and messages of three nodes; the nodes' copies, and one gradient
  // or distance.
  constexpr uint64_t kPlain = (1 + 1 + 6) * kChunkBytes, kGiven = (3 + 1) * kChunkBytes;
  for (const auto& [mode, bytes] :
       {std::pair("", kPlain), std::pair("delay_compensation {}", kPlain + kGiven),
        std::pair("delay_compensation { adaptive: true }", kPlain + kGiven + kChunkBytes),
        std::pair("elastic {}", kPlain + kGiven)}) {
    SCOPED_TRACE(mode);
    proto::InstallJob first = InstallWithCopies(mode), second = first;
    first.add_own_shards(0);
    second.add_own_shards(kNoShard);
    proto::OwnBackup* const backup = second.add_own_backups();
    backup->set_shard(0);
    backup->set_thread(0);
    JobAdmission of_first({.memory_bytes = bytes}), of_second({.memory_bytes = bytes});
    EXPECT_EQ(of_first.Admit(first), absl::OkStatus());
    EXPECT_EQ(of_second.Admit(second), absl::OkStatus());
    EXPECT_EQ(of_first.promised_bytes(), bytes);
    EXPECT_EQ(of_second.promised_bytes(), bytes);
    EXPECT_EQ(of_second.LimitOf(JobId(1), 0), bytes);
    JobAdmission too_small({.memory_bytes = bytes - 1});
    EXPECT_EQ(too_small.Admit(second).code(), absl::StatusCode::kResourceExhausted);
    // A backup that is made later, as when the first one is lost.
    proto::InstallBackup later;
    *later.mutable_record() = second.record();
    *later.mutable_backup() = *backup;
    JobAdmission of_later({.memory_bytes = bytes});
    EXPECT_EQ(of_later.AdmitBackup(later), absl::OkStatus());
    EXPECT_EQ(of_later.promised_bytes(), bytes);
    EXPECT_EQ(too_small.AdmitBackup(later).code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace strata::server

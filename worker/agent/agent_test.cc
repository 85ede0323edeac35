#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/agent/node_gpus.h"
#include "worker/agent/peer_prober.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {
namespace {

proto::JobRecord Record(uint32_t job, uint64_t cluster = 0xabc) {
  proto::JobRecord record;
  record.set_job_id(job);
  record.set_cluster(cluster);
  record.set_token(1234567 + job);
  record.mutable_job()->set_name("lenet");
  return record;
}

std::string Directory() {
  std::string dir =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(dir);
  return dir;
}

TEST(RunDirectoryLock, LogsOfAnotherJobAreGoneBeforeTheFolderIsTheJobs) {
  const std::string dir = Directory();
  std::filesystem::create_directories(dir + "/logs");
  const std::string log = dir + "/logs/rank4.log", aggregator = dir + "/logs/aggregator-node1.log";
  const auto write = [&] {
    std::ofstream{log} << "secret\n";
    std::ofstream{aggregator} << "secret\n";
    std::ofstream{dir + "/logs/notes.txt"} << "mine\n";
  };
  ASSERT_TRUE(LockRunDirectory(dir, Record(7)).ok());
  write();
  // Also for a later node, or a later attempt of the job.
  ASSERT_TRUE(LockRunDirectory(dir, Record(7)).ok());
  EXPECT_TRUE(std::filesystem::exists(log));
  ASSERT_TRUE(LockRunDirectory(dir, Record(8)).ok());
  EXPECT_FALSE(std::filesystem::exists(log));
  EXPECT_FALSE(std::filesystem::exists(aggregator));
  EXPECT_TRUE(std::filesystem::exists(dir + "/logs/notes.txt"));
}

TEST(RunDirectoryLock, LogsBehindALinkAreNotThoseOfTheJobBefore) {
  const std::string dir = Directory(), elsewhere = dir + "-elsewhere";
  std::filesystem::create_directories(elsewhere);
  std::ofstream{elsewhere + "/rank4.log"} << "of others\n";
  std::filesystem::create_directory_symlink(elsewhere, dir + "/logs");
  ASSERT_TRUE(LockRunDirectory(dir, Record(8)).ok());
  EXPECT_TRUE(std::filesystem::exists(elsewhere + "/rank4.log"));
}

TEST(RunDirectoryLock, IsSharedByTheNodesOfAJobAndRefusedToAnother) {
  const std::string dir = Directory();
  auto one = LockRunDirectory(dir, Record(7));
  ASSERT_TRUE(one.ok()) << one.status();
  auto two = LockRunDirectory(dir, Record(7));
  ASSERT_TRUE(two.ok()) << two.status();
  for (const proto::JobRecord& other : {Record(8), Record(7, 0xdef)}) {
    absl::Status status = LockRunDirectory(dir, other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              "run directory " + dir + " is in use by job 7 \"lenet\" of cluster 0000000000000abc");
  }
  one->Reset();
  EXPECT_FALSE(LockRunDirectory(dir, Record(8)).ok());
  two->Reset();
  auto other = LockRunDirectory(dir, Record(8));
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(LockRunDirectory(dir, Record(7)).ok());
}

TEST(RunDirectoryLock, IsLetGoOfWhenItsProcessIsKilled) {
  const std::string dir = Directory();
  int held[2];
  ASSERT_EQ(pipe2(held, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lock = LockRunDirectory(dir, Record(7));
    char byte = lock.ok() ? 'y' : 'n';
    if (write(held[1], &byte, 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(held[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_FALSE(LockRunDirectory(dir, Record(8)).ok());
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(LockRunDirectory(dir, Record(8)).ok());
  close(held[0]);
  close(held[1]);
}

TEST(RunDirectoryLock, NamesTheFileThatCannotBeMade) {
  absl::Status status = LockRunDirectory("/nonexistent", Record(7)).status();
  EXPECT_EQ(status.message(), "cannot open /nonexistent/.lock: No such file or directory");
}

}  // namespace

namespace {

using testing::ElementsAre;

TEST(GpuSlots, AJobsRanksSpreadOverTheGpus) {
  GpuSlots slots({0, 2}, 2);
  EXPECT_THAT(slots.Take(JobId(1), 3).value(), ElementsAre(0, 2, 0));
}

TEST(GpuSlots, TheLeastLoadedGpuComesFirstThenTheLowest) {
  GpuSlots slots({0, 1, 2}, 2);
  EXPECT_THAT(slots.Take(JobId(1), 2).value(), ElementsAre(0, 1));
  EXPECT_THAT(slots.Take(JobId(2), 2).value(), ElementsAre(2, 0));
  EXPECT_THAT(slots.Take(JobId(3), 2).value(), ElementsAre(1, 2));
}

TEST(GpuSlots, WhatIsTakenIsGivenBackWithItsJobOnly) {
  GpuSlots slots({0, 1}, 1);
  ASSERT_TRUE(slots.Take(JobId(1), 1).ok());
  ASSERT_THAT(slots.Take(JobId(2), 1).value(), ElementsAre(1));
  EXPECT_EQ(slots.Take(JobId(3), 1).status(),
            absl::UnavailableError("the job needs 1 GPU slot, 0 of 2 are free"));
  EXPECT_THAT(slots.TakenBy(JobId(2)), ElementsAre(1));
  EXPECT_THAT(slots.TakenBy(JobId(3)), ElementsAre());
  slots.Release(JobId(3));
  EXPECT_FALSE(slots.Take(JobId(3), 1).ok());
  slots.Release(JobId(1));
  slots.Release(JobId(1));
  EXPECT_THAT(slots.Take(JobId(3), 1).value(), ElementsAre(0));
  EXPECT_FALSE(slots.Take(JobId(4), 1).ok());
}

TEST(GpuSlots, MoreThanThereAreIsNoMatterOfWaiting) {
  EXPECT_EQ(GpuSlots({0}, 2).Take(JobId(1), 3).status(),
            absl::FailedPreconditionError("the job needs 3 GPU slots, this worker has 2"));
  EXPECT_EQ(GpuSlots({}, 1).Take(JobId(1), 1).status(),
            absl::FailedPreconditionError("the job needs 1 GPU slot, this worker has 0"));
}

constexpr uint64_t kMiB = 1 << 20;

std::vector<proto::Gpu> TwoGpus() {
  std::vector<proto::Gpu> gpus(2);
  for (uint32_t i = 0; i < 2; ++i) {
    gpus[i].set_index(3 * i);
    gpus[i].set_name("H");
    gpus[i].set_memory_bytes((10 + i) * kMiB);
  }
  return gpus;
}

MemoryFormula Need(uint64_t mib) {
  MemoryFormula need;
  need.Add("weights", mib * kMiB);
  return need;
}

TEST(GpuLedger, AJobThatDoesNotFitOneOfItsGpusIsRefusedWithThatGpuAndAllFigures) {
  GpuLedger ledger(TwoGpus());
  EXPECT_EQ(ledger.limit_bytes(), 21 * kMiB);
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(2)}, {3, Need(7)}}).ok());
  EXPECT_EQ(
      ledger.Promise(JobId(2), {{0, Need(8)}, {3, Need(5)}}),
      absl::ResourceExhaustedError("GPU 3 (H): it needs up to 5.0 MiB: weights 5.0 MiB; other "
                                   "jobs are promised 7.0 MiB of its 11.0 MiB"));
  EXPECT_EQ(ledger.promised_bytes(JobId(2)), 0u) << "none of it";
  EXPECT_EQ(ledger.promised_bytes(), 9 * kMiB);
  EXPECT_TRUE(ledger.Promise(JobId(2), {{0, Need(8)}, {3, Need(4)}}).ok()) << "to the last byte";
  EXPECT_EQ(ledger.promised_bytes(), ledger.limit_bytes());
}

TEST(GpuLedger, ASecondPromiseReplacesTheFirstAndARefusedOneDoesNot) {
  GpuLedger ledger(TwoGpus());
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(6)}}).ok());
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(9)}}).ok());
  EXPECT_EQ(ledger.Promise(JobId(1), {{0, Need(11)}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger.promised_bytes(JobId(1)), 9 * kMiB);
}

TEST(GpuLedger, WhatAJobGivesBackOthersMayHave) {
  GpuLedger ledger(TwoGpus());
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(6)}}).ok());
  ASSERT_FALSE(ledger.Promise(JobId(2), {{0, Need(6)}}).ok());
  ledger.Release(JobId(1));
  ledger.Release(JobId(7));
  EXPECT_TRUE(ledger.Promise(JobId(2), {{0, Need(6)}}).ok());
}

TEST(GpuLedger, NeedsBeyondAllMemoryAndUnknownGpusAreRefused) {
  GpuLedger ledger(TwoGpus());
  MemoryFormula all;
  all.Add("weights", UINT64_MAX);
  ASSERT_TRUE(ledger.Promise(JobId(1), {{0, Need(1)}}).ok());
  EXPECT_EQ(ledger.Promise(JobId(2), {{0, all}}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger.Promise(JobId(2), {{1, Need(1)}}),
            absl::FailedPreconditionError("there is no GPU 1"));
}

}  // namespace

namespace {

class Results {
 public:
  void Add(const proto::PeersTried& tried) {
    absl::MutexLock lock(&mutex_);
    for (const auto& peer : tried.peers()) peers_[peer.address()] = peer;
  }
  proto::PeerReach WaitFor(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    const auto came = [&] {
      mutex_.AssertHeld();
      return peers_.count(address) > 0;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&came), absl::Seconds(30));
    return peers_[address];
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, proto::PeerReach> peers_ ABSL_GUARDED_BY(mutex_);
};

proto::TryPeers Ask(const std::string& address, const std::string& name) {
  proto::TryPeers ask;
  ask.add_peers()->set_address(address);
  ask.mutable_peers(0)->set_name(name);
  return ask;
}

TEST(PeerProber, AnswersEachAskWithTheNameOfTheDaemonThere) {
  auto endpoint = *transport::CreateZmqEndpoint(transport::ZmqOptions());
  const std::string good = absl::StrCat("tcp://127.0.0.1:", *endpoint->Listen("tcp://127.0.0.1:0"));
  Results results;
  auto prober = *PeerProber::Create({.timeout = absl::Seconds(20)},
                                    [&](const proto::PeersTried& tried) { results.Add(tried); });
  prober->Try(Ask(good, "s1"));
  EXPECT_EQ(results.WaitFor(good).name(), "s1");
  EXPECT_EQ(results.WaitFor(good).error(), "");
  prober->Try(Ask("nonsense", "s2"));
  EXPECT_EQ(results.WaitFor("nonsense").name(), "s2");
  EXPECT_EQ(results.WaitFor("nonsense").error(), "the address is not tcp://HOST:PORT");
}

TEST(PeerProber, StopsInTheMiddleOfATry) {
  // An address of the documentation network: nobody answers there.
  auto prober = *PeerProber::Create({.timeout = absl::Hours(1)}, [](const proto::PeersTried&) {});
  prober->Try(Ask("tcp://198.51.100.1:9", "s1"));
  prober->Stop();
  prober->Stop();
}

}  // namespace
}  // namespace strata::worker

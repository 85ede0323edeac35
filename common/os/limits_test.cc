#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "common/os/descriptors.h"
#include "common/os/memory_ledger.h"
#include "common/os/process_use.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(Descriptors, AnAggregatorOfARingNeedsNoMoreThanOneOfTheMostShards) {
  EXPECT_EQ(RingDescriptors(4, 1).total, 68u + 4 + 72 + 16 + 64 + 16 * 5);
  EXPECT_LE(RingDescriptors(4, 1).total, AggregatorDescriptors(4, kShardsPerJobMax, 1).total);
}

TEST(Descriptors, ConnectionsPerPeerMultiplyThoseOfPeers) {
  EXPECT_EQ(RingDescriptors(4, 3).total, 68u + 4 + 72 + 48 + 64 + 48 * 5);
  EXPECT_EQ(AggregatorDescriptors(4, 2, 3).total, 68u + 4 + 2 * 3 * 5);
  EXPECT_EQ(AggregatorDescriptors(4, 2, 3).formula, "68 + 4 ranks + 2 shards x 3 connections x 5");
}

TEST(Descriptors, NeedOfAServerGrowsWithShardsAndConnections) {
  const DescriptorNeed one = ServerDescriptors(1, {.connections_max = 100});
  EXPECT_EQ(one.total, 68u + 1 * (72 + 64 + 100));
  EXPECT_EQ(one.formula, "68 + 1 shard x (136 + 100 connections)");
  EXPECT_EQ(ServerDescriptors(4, {.connections_max = 1000}).total, 68u + 4 * (72 + 64 + 1000));
}

TEST(Descriptors, NeedOfACoordinatorIsItsSessionsAndCalls) {
  EXPECT_EQ(CoordinatorDescriptors({.sessions_max = 300, .calls_max = 20}).total, 64u + 300 + 20);
}

TEST(Descriptors, NeedOfAWorkerCoversItsLargestAggregator) {
  const DescriptorNeed few = WorkerDescriptors(2);
  EXPECT_EQ(few.total, AggregatorDescriptors(2, kShardsPerJobMax, 1).total);
  EXPECT_EQ(few.formula, "an aggregator's 68 + 2 ranks + 256 shards x 5");
  EXPECT_EQ(WorkerDescriptors(1024).total, 360u + 1024 * 7);
  EXPECT_EQ(WorkerDescriptors(2, /*shards_max=*/4, /*open_logs_max=*/10).total, 104u + 10 + 2 * 7);
}

TEST(Descriptors, TooFewAreRefusedInOneLineWithBothFiguresAndTheCommand) {
  const DescriptorNeed need = ServerDescriptors(1, {.connections_max = 1024});
  EXPECT_TRUE(CheckDescriptors("strata server", need, need.total).ok());
  const absl::Status refused = CheckDescriptors("strata server", need, need.total - 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(),
            "strata server needs up to 1228 file descriptors (68 + 1 shard x (136 + 1024 "
            "connections)), and may open 1227: raise the limit with `ulimit -n 1228`, or lower "
            "what it has to serve");
}

// In a process of its own: a hard limit cannot be raised again.
int ExitStatusWith(rlim_t soft, rlim_t hard, uint64_t need) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit limit = {soft, hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(3);
    _exit(EnsureDescriptors("test", {"", need}).ok() ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

TEST(Descriptors, TheSoftLimitIsRaisedToTheHardOne) {
  EXPECT_EQ(ExitStatusWith(64, 512, 512), 0);
  EXPECT_EQ(ExitStatusWith(64, 512, 513), 1);
}

MemoryFormula Need(uint64_t bytes) {
  MemoryFormula need;
  need.Add("weights", bytes);
  return need;
}

TEST(MemoryLedger, PromisesUpToTheLimitAndNotAByteMore) {
  MemoryLedger ledger(100);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(60)).ok());
  EXPECT_EQ(ledger.Promise(JobId(2), Need(41)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger.promised_bytes(), 60u);
  EXPECT_TRUE(ledger.Promise(JobId(2), Need(40)).ok());
  EXPECT_EQ(ledger.promised_bytes(), 100u);
}

TEST(MemoryLedger, WhatAJobGivesBackCanBePromisedAgain) {
  MemoryLedger ledger(100);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(100)).ok());
  ledger.Release(JobId(1));
  EXPECT_TRUE(ledger.Promise(JobId(2), Need(100)).ok());
  EXPECT_EQ(ledger.promised_bytes(JobId(1)), 0u);
}

TEST(MemoryLedger, ASecondPromiseToAJobReplacesTheFirst) {
  MemoryLedger ledger(100);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(60)).ok());
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(90)).ok());
  EXPECT_EQ(ledger.promised_bytes(), 90u);
}

TEST(MemoryLedger, ARefusalGivesFormulaFigureAndLimit) {
  MemoryLedger ledger(3 << 20);
  EXPECT_TRUE(ledger.Promise(JobId(1), Need(1 << 20)).ok());
  MemoryFormula need = Need(2 << 20);
  need.Add("held sums (3 - 1) x 4 x 64.0 KiB", 512 << 10);
  EXPECT_EQ(ledger.Promise(JobId(2), need).message(),
            "it needs up to 2.5 MiB: weights 2.0 MiB + held sums (3 - 1) x 4 x 64.0 KiB 512.0 KiB; "
            "other jobs are promised 1.0 MiB of the limit of 3.0 MiB (--memory-limit)");
}

TEST(MemoryLedger, SumsBeyond64BitsDoNotWrapAround) {
  MemoryLedger ledger(100);
  MemoryFormula need = Need(UINT64_MAX);
  need.Add("more", 10);
  EXPECT_EQ(need.total(), UINT64_MAX);
  EXPECT_FALSE(ledger.Promise(JobId(1), need).ok());
  EXPECT_EQ(SaturatingProduct(uint64_t{1} << 40, uint64_t{1} << 40), UINT64_MAX);
  EXPECT_EQ(SaturatingProduct(0, UINT64_MAX), 0u);
}

TEST(ParseBytes, TakesUnitsAndPlainNumbers) {
  EXPECT_EQ(*ParseBytes("8GiB"), uint64_t{8} << 30);
  EXPECT_EQ(*ParseBytes("0.5 MiB"), uint64_t{512} << 10);
  EXPECT_EQ(*ParseBytes("12345"), 12345u);
  for (const char* bad : {"", "8GB", "-1MiB", "GiB", "nan", "1e30TiB"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ProcessUse, CountsOpenDescriptors) {
  const uint64_t before = MeasureUse().descriptors;
  const UniqueFd one(open("/dev/null", O_RDONLY));
  const UniqueFd two(open("/dev/null", O_RDONLY));
  EXPECT_EQ(MeasureUse().descriptors, before + 2);
  EXPECT_EQ(MeasureUse(getpid()).descriptors, before + 3);  // including the one that reads the
                                                            // folder
}

TEST(ProcessUse, ShowsTheLimitOfDescriptors) {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(MeasureUse().descriptors_max, limit.rlim_cur);
}

TEST(ProcessUse, ResidentMemoryGrowsWithWhatIsTouched) {
  const uint64_t before = MeasureUse().resident_bytes;
  std::vector<char> touched(64 << 20);
  std::memset(touched.data(), 1, touched.size());
  EXPECT_GE(MeasureUse().resident_bytes, before + (60 << 20));
  EXPECT_GE(MeasureUse().threads, 1u);
}

TEST(ProcessUse, OfAProcessThatIsNotThereIsNothing) {
  EXPECT_EQ(MeasureUse(0x7ffffffe).descriptors, 0u);
  EXPECT_EQ(MeasureUse(0x7ffffffe).resident_bytes, 0u);
}

TEST(MachineMemory, TheDefaultLimitIsHalfOfIt) {
  EXPECT_GT(MachineMemoryBytes(), uint64_t{64} << 20);
  EXPECT_EQ(DefaultMemoryLimitBytes(), MachineMemoryBytes() / 2);
}

}  // namespace
}  // namespace strata

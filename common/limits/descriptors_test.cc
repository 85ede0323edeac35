#include "common/limits/descriptors.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

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
  EXPECT_EQ(WorkerDescriptors(1024).total, 360u + 1024 * 5);
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

}  // namespace
}  // namespace strata

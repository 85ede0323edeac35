// A node or a server that accepts nothing for a while, beside others that produce as much as they
// can: they hold no more of a job meanwhile than the window allows.
#include <signal.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

constexpr absl::Duration kStopped = absl::Seconds(4);
// A node's pushes of some 100 steps; the window is 4 of 61 chunks.
constexpr uint64_t kGrowthBytesMax = 24 << 20;

uint64_t ResidentBytes(int pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/statm"));
  uint64_t size = 0, resident = 0;
  in >> size >> resident;
  EXPECT_GT(resident, 0u) << pid;
  return resident * 4096;
}

// By formula, without the room for the first weights, which have been freed.
uint64_t LimitInTraining(const proto::JobNodeStatus& node) {
  uint64_t limit = 0;
  for (const proto::MemoryPart& part : node.memory_parts()) {
    if (!absl::StartsWith(part.name(), "first weights")) limit += part.limit_bytes();
  }
  EXPECT_GT(limit, 0u);
  return limit;
}

class WindowMemory : public testing::TestWithParam<const char*> {
 protected:
  // No promise may exceed the job's use by more than a little.
  Cluster cluster_{{.servers = 1,
                    .nodes = 2,
                    .slots = 1,
                    .daemon_args = {"--memory-limit", "3MiB"},
                    .coordinator_args = {"--dead-after", "60"}}};

  // What the others and the job hold while `stopped` is stopped.
  void StopAndWatch(int stopped, const std::vector<int>& others, JobId job) {
    std::vector<uint64_t> before;
    for (const int pid : others) before.push_back(ResidentBytes(pid));
    ASSERT_EQ(kill(stopped, SIGSTOP), 0);
    const absl::Time until = absl::Now() + kStopped;
    WaitUntil([&] {
      const proto::JobStatus status = cluster_.Status(job);
      for (const auto& shard : status.shards()) {
        EXPECT_LE(shard.memory_bytes(), shard.memory_limit_bytes());
      }
      for (const auto& node : status.nodes()) {
        EXPECT_LE(node.memory_bytes(), LimitInTraining(node));
      }
      for (size_t i = 0; i < others.size(); ++i) {
        EXPECT_LE(ResidentBytes(others[i]), before[i] + kGrowthBytesMax) << others[i];
      }
      return absl::Now() >= until || HasFailure();
    });
    EXPECT_EQ(kill(stopped, SIGCONT), 0);
  }
};

TEST_P(WindowMemory, OfAFastProducerStaysBoundedBesideASlowConsumer) {
  ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  const auto id = cluster_.Submit(LenetJob("job", 2, 1, 10'000'000, GetParam()));
  ASSERT_TRUE(id.ok()) << id.status();
  const proto::JobStatus status = cluster_.WaitForStep(*id, 20);
  ASSERT_EQ(status.state(), proto::RUNNING) << status.reason();
  const std::vector<int> aggregators = ListProcesses("aggregator");
  ASSERT_EQ(aggregators.size(), 2u);
  const int server = cluster_.server(0).process->pid();
  StopAndWatch(aggregators[0], {server, aggregators[1]}, *id);
  cluster_.WaitForStep(*id, cluster_.Status(*id).progress().step() + 20);
  StopAndWatch(server, aggregators, *id);
  const uint64_t step = cluster_.Status(*id).progress().step();
  EXPECT_GE(cluster_.WaitForStep(*id, step + 20).progress().step(), step + 20);
  EXPECT_EQ(cluster_.client().Cancel(*id), absl::OkStatus());
  cluster_.WaitForEnd(*id);
  cluster_.StopAll();
}

INSTANTIATE_TEST_SUITE_P(Modes, WindowMemory,
                         testing::Values("sync {}", "lazy { staleness: 3 }", "async {}"));

}  // namespace
}  // namespace strata::tests

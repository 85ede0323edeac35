// Jobs on GPUs, real processes with fake devices: their weights equal those of the same jobs
// without GPUs, and a fault of a device, or of a rank that uses it, fails only its own job.
#include "tests/e2e/testing/device_jobs.h"

#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// 2 nodes x 2 ranks of the program, with its tensor in the given place, for this many steps.
proto::Job DeviceJob(const std::string& name, const std::string& where, int steps,
                     const std::string& fields = "", int step_ms = 0) {
  return DeviceRankJob(name, where, steps, "ranks: 4 ranks_per_node: 2 " + fields, step_ms);
}

Cluster::Options OnGpus(const std::string& options = "memory_mb=64") {
  return {.servers = 1,
          .shards = 2,
          .nodes = 2,
          .slots = 8,
          .worker_args = {"--device-plugin", FakeDevices(options), "--ranks-per-gpu", "8"}};
}

TEST(DeviceJobs, HaveTheWeightsOfTheSameJobsWithout) {
  Cluster cluster(OnGpus("devices=2,memory_mb=64"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const std::string fields :
       {"consistency { sync {} }", "exchange: RING", "push { codec: INT8 } pull { codec: FP16 }",
        "push { codec: TOP_K density: 0.05 }", "push { codec: DGC } optimizer { sgd {} }"}) {
    const std::string expected =
        FinalWeights(cluster.RunToEnd(DeviceJob("host", "copied", 8, fields)));
    EXPECT_THAT(expected, MatchesRegex("weights [0-9a-f]+")) << fields;
    for (const std::string where : {"copied", "stream", "adopted"}) {
      const proto::JobStatus on_gpus =
          cluster.RunToEnd(DeviceJob("gpus", where, 8, absl::StrCat("device: GPU ", fields)));
      EXPECT_EQ(FinalWeights(on_gpus), expected) << fields << ", " << where;
    }
  }
}

TEST(DeviceJobs, RunInEveryMode) {
  Cluster cluster(OnGpus());
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const std::string mode : {"lazy {}", "async {}"}) {
    const std::string fields = absl::StrCat("device: GPU consistency { ", mode, " }");
    const proto::JobStatus status = cluster.RunToEnd(DeviceJob("m", "stream", 8, fields));
    EXPECT_EQ(status.progress().step(), 8u) << mode;
  }
}

TEST(DeviceJobs, ARankThatIsKilledFailsItsJobAloneAndTheNextJobRuns) {
  Cluster cluster(OnGpus());
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto victim = cluster.Submit(DeviceJob("victim", "stream", 1'000'000, "device: GPU", 1));
  ASSERT_TRUE(victim.ok()) << victim.status();
  cluster.WaitForStep(*victim, 3);
  const auto other =
      cluster.Submit(DeviceJob("other", "stream", 200, "device: GPU consistency { async {} }", 5));
  ASSERT_TRUE(other.ok()) << other.status();
  cluster.WaitForStep(*other, 3);
  const std::vector<int> ranks = ProcessesWith("device_rank stream 1000000 ");
  ASSERT_FALSE(ranks.empty()) << absl::StrJoin(Processes(), "\n");
  kill(ranks.front(), SIGKILL);
  const proto::JobStatus status = cluster.WaitForEnd(*victim);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("killed by signal 9"));
  EXPECT_THAT(status.reason(), HasSubstr("rank "));
  EXPECT_EQ(cluster.WaitForEnd(*other).state(), proto::FINISHED) << cluster.Status(*other).reason();
  cluster.RunToEnd(DeviceJob("next", "stream", 5, "device: GPU"));
}

TEST(DeviceJobs, AnErrorOfADeviceFailsItsJobWithTheCauseAndTheNextJobRuns) {
  Cluster cluster(OnGpus("memory_mb=64,fails_at=200,error=719"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const std::string reason =
      cluster.RunToFailure(DeviceJob("victim", "stream", 1'000'000, "device: GPU"));
  EXPECT_THAT(reason, HasSubstr("device 0: "));
  EXPECT_THAT(reason, HasSubstr("unspecified launch failure"));
  cluster.RunToEnd(DeviceJob("next", "stream", 5, "device: GPU"));
}

TEST(DeviceJobs, StatusShowsWhatTheyTakeOfTheGpusBesideTheFormula) {
  Cluster cluster(OnGpus("devices=2,memory_mb=64"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto job = cluster.Submit(
      DeviceJob("shown", "stream", 1'000'000, "device: GPU push { codec: INT8 }", 1));
  ASSERT_TRUE(job.ok()) << job.status();
  const proto::JobStatus status = cluster.WaitFor(*job, [](const proto::JobStatus& now) {
    return now.nodes_size() == 2 && now.nodes(0).gpu_memory_bytes() > 0 &&
           now.nodes(1).gpu_memory_bytes() > 0;
  });
  for (const proto::JobNodeStatus& node : status.nodes()) {
    uint64_t sum = 0;
    for (const proto::MemoryPart& part : node.gpu_memory_parts()) sum += part.limit_bytes();
    EXPECT_EQ(sum, node.gpu_memory_limit_bytes());
    // Kernels reach the other GPU's memory, so no gradients are copied from it.
    EXPECT_EQ(node.gpu_memory_bytes(), sum - 2u * 1024 * sizeof(float));
    EXPECT_GE(sum, 8u << 20) << "weights on two GPUs, gradients of two ranks, 2 MiB each at least";
    EXPECT_GT(node.memory_bytes(), 0u);
    EXPECT_LE(node.memory_bytes(), node.memory_limit_bytes());
  }
  ASSERT_EQ(cluster.client().Cancel(*job), absl::OkStatus());
  cluster.WaitForEnd(*job);
}

TEST(DeviceJobs, AJobThatAGpuHasNoMemoryForIsRefusedBeforeItTrains) {
  Cluster cluster(OnGpus("memory_mb=0"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const std::string reason = cluster.RunToFailure(DeviceJob("small", "stream", 5, "device: GPU"));
  EXPECT_THAT(reason,
              HasSubstr("GPU 0 (fake device): it needs up to 6.0 MiB: weights 2.0 MiB + gradients "
                        "4.0 MiB; other jobs are promised 0 B of its 0 B"));
}

// Others have taken the memory that the formula assumes to be free.
TEST(DeviceJobs, ADeviceThatHasNoMoreMemoryIsNamedWithWhatWasAskedAndFree) {
  Cluster cluster(OnGpus("memory_mb=64,taken_mb=61"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const std::string reason = cluster.RunToFailure(DeviceJob("late", "stream", 5, "device: GPU"));
  EXPECT_THAT(reason,
              HasSubstr("device 0: out of memory: 2.0 MiB asked for a rank's gradients, 1020.0 KiB "
                        "of 64.0 MiB free on the device"));
}

}  // namespace
}  // namespace strata::tests

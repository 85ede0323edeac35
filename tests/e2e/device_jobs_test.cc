// Jobs on GPUs, real processes with the fake devices: they have the weights of the same jobs
// without, and what goes wrong on a device, or with a rank that uses it, fails its job alone.
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/jobs.h"
#include "tests/e2e/leftovers.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

std::string Plugin(const std::string& options) {
  return absl::StrCat("kernels/cuda/libstrata_fake_device.so,", options);
}

// 2 nodes x 2 ranks of the program, which has its tensor there and takes so many steps.
proto::Job DeviceJob(const std::string& name, const std::string& where, int steps,
                     const std::string& fields = "", int step_ms = 0) {
  proto::Job job = JobOf(absl::StrCat("ranks: 4 ranks_per_node: 2 chunk_elements: 1024 ", fields));
  job.set_name(name);
  job.mutable_program()->set_path(std::filesystem::absolute("tests/e2e/device_rank").string());
  for (const std::string& arg : {where, absl::StrCat(steps), absl::StrCat(step_ms)}) {
    job.mutable_program()->add_args(arg);
  }
  return job;
}

Cluster::Options OnGpus(const std::string& options = "memory_mb=64") {
  return {.servers = 1,
          .shards = 2,
          .nodes = 2,
          .slots = 8,
          .worker_args = {"--device-plugin", Plugin(options), "--ranks-per-gpu", "8"}};
}

// What rank 0 has printed of the final weights.
std::string FinalWeights(const proto::JobStatus& status) {
  std::ifstream in(status.run_dir() + "/logs/rank0.log");
  std::stringstream text;
  text << in.rdbuf();
  std::smatch found;
  const std::string log = text.str();
  return std::regex_search(log, found, std::regex("weights [0-9a-f]{16}")) ? found.str() : log;
}

// The process of a rank that is to take so many steps; 0: there is none.
int ARankOf(int steps) {
  for (const std::string& line : Processes()) {
    if (line.find(absl::StrCat("device_rank stream ", steps, " ")) != std::string::npos) {
      return std::atoi(line.c_str());
    }
  }
  return 0;
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
    for (const std::string where : {"copied", "stream"}) {
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
  const int rank = ARankOf(1'000'000);
  ASSERT_GT(rank, 0) << absl::StrJoin(Processes(), "\n");
  kill(rank, SIGKILL);
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
  const auto victim = cluster.Submit(DeviceJob("victim", "stream", 1'000'000, "device: GPU"));
  ASSERT_TRUE(victim.ok()) << victim.status();
  const proto::JobStatus status = cluster.WaitForEnd(*victim);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("device 0: "));
  EXPECT_THAT(status.reason(), HasSubstr("unspecified launch failure"));
  cluster.RunToEnd(DeviceJob("next", "stream", 5, "device: GPU"));
}

TEST(DeviceJobs, ADeviceThatIsTooSmallIsNamedWithWhatWasAskedAndFree) {
  Cluster cluster(OnGpus("memory_mb=0"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto job = cluster.Submit(DeviceJob("small", "stream", 5, "device: GPU"));
  ASSERT_TRUE(job.ok()) << job.status();
  const proto::JobStatus status = cluster.WaitForEnd(*job);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(),
              HasSubstr("device 0: out of memory: 78.1 KiB asked for a job's weights, 0.0 KiB of "
                        "0.0 KiB free on the device"));
}

}  // namespace
}  // namespace strata::tests

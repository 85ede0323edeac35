// Ranks that sum a node's gradients by NCCL, their aggregator, and servers or a ring between the
// nodes, as processes of a cluster, with the fake devices and NCCL.
#include <signal.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/device_jobs.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// Each rank has its own GPU.
Cluster::Options OnGpus(int nodes, const std::string& options = "") {
  return {.servers = 1,
          .shards = 2,
          .nodes = nodes,
          .slots = 4,
          .worker_args = {"--device-plugin", FakeDevices("devices=4,memory_mb=64" + options)}};
}

constexpr char kOnGpus[] = "device: GPU node_sum: NCCL ";

// The same job on CPUs, and on GPUs with its tensor in host memory and in the arena.
void ExpectTheSameWeights(Cluster& cluster, const std::string& fields) {
  const std::string expected =
      FinalWeights(cluster.RunToEnd(DeviceRankJob("host", "copied", 8, fields)));
  EXPECT_THAT(expected, MatchesRegex("weights [0-9a-f]+")) << fields;
  for (const std::string where : {"copied", "stream"}) {
    const proto::JobStatus on_gpus =
        cluster.RunToEnd(DeviceRankJob("gpus", where, 8, kOnGpus + fields));
    EXPECT_EQ(FinalWeights(on_gpus), expected) << fields << ", " << where;
  }
}

TEST(NodeSum, RanksOfOneNodeHaveTheWeightsOfTheCpu) {
  Cluster cluster(OnGpus(1));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  ExpectTheSameWeights(cluster, "ranks: 3");
  ExpectTheSameWeights(cluster, "ranks: 1");
}

TEST(NodeSum, SoDoRanksOfTwoNodesOverServersAndInARingWhateverTheyAgreeOn) {
  Cluster cluster(OnGpus(2));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const std::string fields :
       {"consistency { sync {} }", "exchange: RING", "push { codec: TOP_K density: 0.05 }",
        "consistency { lazy { double_buffering: true } }",
        "consistency { lazy { local_steps: 3 } }"}) {
    ExpectTheSameWeights(cluster, "ranks: 4 ranks_per_node: 2 " + fields);
  }
}

TEST(NodeSum, RunsInEveryMode) {
  Cluster cluster(OnGpus(2));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const std::string mode : {"lazy {}", "async {}", "async { elastic { every_steps: 3 } }"}) {
    const std::string fields =
        absl::StrCat(kOnGpus, "ranks: 4 ranks_per_node: 2 consistency { ", mode, " }");
    const proto::JobStatus status = cluster.RunToEnd(DeviceRankJob("m", "stream", 8, fields));
    EXPECT_EQ(status.progress().step(), 8u) << mode;
  }
}

TEST(NodeSum, StatusSaysWhoAddsUp) {
  Cluster cluster(OnGpus(1));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const proto::JobStatus status =
      cluster.RunToEnd(DeviceRankJob("m", "stream", 1, absl::StrCat(kOnGpus, "ranks: 2")));
  const std::vector<std::string> ask = {"status", absl::StrCat(status.job_id()), "--coordinator",
                                        cluster.address()};
  EXPECT_THAT(RunStrata(ask).out, HasSubstr("GPU, a node's gradients added up by NCCL"));
}

class NodeSumFailure : public DeviceFailure {
 protected:
  void Start(const std::string& options = "") { StartOn(OnGpus(1, options)); }
  JobId Submit(const std::string& folder, int steps = TrainOnDevice::kForEver) {
    return DeviceFailure::Submit(folder, absl::StrCat(kOnGpus, "ranks: 3"), steps);
  }
  void ExpectTheNextJobRuns() { ExpectTheNextRuns(kOnGpus); }
};

TEST_F(NodeSumFailure, ARankThatIsKilledFailsTheJobByNameAndNobodyWaitsForIt) {
  Start();
  const JobId job = Submit("killed");
  ASSERT_EQ(cluster_->WaitForStep(job, 2).state(), proto::RUNNING);
  kill(TrainOnDevice::RankProcesses().back(), SIGKILL);
  EXPECT_THAT(FailureReason(job), HasSubstr("killed by signal 9"));
  ExpectTheNextJobRuns();
}

TEST_F(NodeSumFailure, AnErrorOfTheLibraryFailsTheJobWithTheRankAndTheLibrarysWords) {
  Start(",nccl_fails_rank=1,nccl_fails_at=20");
  EXPECT_THAT(
      FailureReason(Submit("error")),
      HasSubstr("rank 1 (node 0, w0): device 1: NCCL: a collective: remote process exited"));
  ExpectTheNextJobRuns();
}

TEST_F(NodeSumFailure, AGradientThatIsNotFiniteIsItsRanks) {
  Start();
  EXPECT_THAT(FailureReason(Submit("spoils")),
              HasSubstr("rank 1 (node 0, w0): the gradient of chunk 1 is not finite at step 3"));
  ExpectTheNextJobRuns();
}

TEST_F(NodeSumFailure, ARankThatMakesMoreStepsThanTheOthersIsNamed) {
  Start();
  EXPECT_THAT(FailureReason(Submit("uneven", 5)),
              testing::ContainsRegex("rank [02] has finished after 5 steps, but rank 1 goes on"));
  ExpectTheNextJobRuns();
}

TEST_F(NodeSumFailure, TwoRanksOnOneGpuAreRefusedWithBothNames) {
  Cluster cluster({.slots = 2,
                   .worker_args = {"--device-plugin", FakeDevices("devices=4,memory_mb=64"),
                                   "--gpus", "1", "--ranks-per-gpu", "2"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto job = cluster.Submit(
      TrainOnDevice("shared").Job(absl::StrCat(kOnGpus, "ranks: 2"), TrainOnDevice::kForEver));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(cluster.WaitForEnd(*job).reason(),
              HasSubstr("node_sum: NCCL needs a GPU for each rank, but ranks 0 and 1 both have GPU "
                        "1 of w0"));
}

}  // namespace
}  // namespace strata::tests

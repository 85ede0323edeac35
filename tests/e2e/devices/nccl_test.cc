// Ranks that all-reduce on their GPUs, as processes of a cluster, with the fake devices and NCCL.
#include <signal.h>

#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/device_jobs.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

using testing::HasSubstr;

std::string Plugin(const std::string& options) {
  return FakeDevices("devices=4,memory_mb=64" + options);
}

Cluster::Options OneNode(const std::string& options = "") {
  return {.slots = 4, .worker_args = {"--device-plugin", Plugin(options)}};
}

TEST(Nccl, RanksOfOneNodeEndWithTheWeightsThatServersMakeOfTheSameGradients) {
  Cluster cluster(OneNode());
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const TrainOnDevice on_servers("servers"), by_nccl("nccl");
  cluster.RunToEnd(on_servers.Job("ranks: 2", 10));
  cluster.RunToEnd(by_nccl.Job("ranks: 2 device: GPU exchange: NCCL", 10));
  for (int rank : {0, 1}) EXPECT_TRUE(by_nccl.Weights(rank) == on_servers.Weights(0)) << rank;
}

TEST(Nccl, SoDoRanksOfTwoNodes) {
  Cluster cluster(
      {.nodes = 2, .slots = 2, .worker_args = {"--device-plugin", Plugin(""), "--gpus", "{i}"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const TrainOnDevice on_servers("servers"), by_nccl("nccl");
  cluster.RunToEnd(on_servers.Job("ranks: 2 ranks_per_node: 1", 10));
  const proto::JobStatus status =
      cluster.RunToEnd(by_nccl.Job("ranks: 2 device: GPU exchange: NCCL", 10));
  EXPECT_EQ(status.nodes_size(), 2);
  for (int rank : {0, 1}) EXPECT_TRUE(by_nccl.Weights(rank) == on_servers.Weights(0)) << rank;
}

// A program whose tensor is on the device, and which never waits for the exchange on the host.
proto::Job InAStream(const std::string& name, const std::string& fields) {
  return DeviceRankJob(name, "stream", 20, fields);
}

// Returns the output of the job's rank 0.
std::string PrintedBy(const proto::JobStatus& status) {
  const std::string log = RankLog(status.run_dir(), 0);
  EXPECT_THAT(log, testing::StartsWith("weights "));
  return log;
}

TEST(Nccl, ProgramsThatComputeInAStreamHaveTheBitsOfTheCpu) {
  Cluster cluster(OneNode());
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto weights = [&](const std::string& name, const std::string& fields) {
    return PrintedBy(cluster.RunToEnd(InAStream(name, fields)));
  };
  EXPECT_EQ(weights("nccl", "ranks: 2 device: GPU exchange: NCCL"), weights("servers", "ranks: 2"));
  EXPECT_EQ(weights("gpu", "exchange: NONE device: GPU"), weights("cpu", "exchange: NONE"));
}

TEST(Nccl, StatusShowsWhatRanksTakeOfTheirGpus) {
  Cluster cluster(OneNode());
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const char* fields : {"exchange: NCCL", "node_sum: NCCL push { codec: INT8 }"}) {
    const auto job = cluster.Submit(
        DeviceRankJob("shown", "stream", 1'000'000, absl::StrCat("ranks: 2 device: GPU ", fields)));
    ASSERT_TRUE(job.ok()) << job.status();
    const proto::JobStatus status = cluster.WaitFor(*job, [](const proto::JobStatus& now) {
      // The last report may be from before the ranks had their GPU memory.
      return now.nodes_size() == 1 && now.nodes(0).step() > 0 &&
             now.nodes(0).gpu_memory_bytes() > 0 &&
             now.nodes(0).gpu_memory_bytes() >= now.nodes(0).gpu_memory_limit_bytes();
    });
    const proto::JobNodeStatus& node = status.nodes(0);
    EXPECT_EQ(node.gpu_memory_bytes(), node.gpu_memory_limit_bytes()) << fields;
    EXPECT_GE(node.gpu_memory_parts_size(), 2) << "of the ranks' own, verdicts at least";
    ASSERT_EQ(cluster.client().Cancel(*job), absl::OkStatus());
    cluster.WaitForEnd(*job);
  }
}

TEST(Nccl, OneRankAloneOnItsGpuHasTheBitsOfTheCpu) {
  Cluster cluster(OneNode());
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const TrainOnDevice on_cpu("cpu"), on_gpu("gpu");
  cluster.RunToEnd(on_cpu.Job("exchange: NONE", 10));
  cluster.RunToEnd(on_gpu.Job("exchange: NONE device: GPU", 10));
  EXPECT_TRUE(on_gpu.Weights(0) == on_cpu.Weights(0));
}

TEST(Nccl, RanksThatHaveTheWeightsAloneGoOnFromTheirCheckpoint) {
  Cluster cluster(OneNode());
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const std::string fields : {"ranks: 2 exchange: NCCL", "exchange: NONE"}) {
    SCOPED_TRACE(fields);
    const auto made = [&](const std::string& name, int step_ms) {
      const std::string text =
          absl::StrCat(fields, " device: GPU optimizer { adam {} } checkpoint { dir: '", TestDir(),
                       "/", name, "' every_steps: 7 } restart { attempts: 2 }");
      return DeviceRankJob(name, "stream", 100, text, step_ms);
    };
    const std::string name = absl::StrContains(fields, "NCCL") ? "nccl" : "none";
    const std::string undisturbed = FinalWeights(cluster.RunToEnd(made(name + "-whole", 0)));
    ASSERT_FALSE(undisturbed.empty());
    const auto job = cluster.Submit(made(name, 30));
    ASSERT_TRUE(job.ok()) << job.status();
    cluster.WaitFor(
        *job, [](const proto::JobStatus& now) { return now.checkpoints().newest_step() >= 14; });
    const std::vector<int> ranks = ProcessesWith("device_rank");
    ASSERT_FALSE(ranks.empty());
    kill(ranks.front(), SIGKILL);
    const proto::JobStatus status = cluster.WaitForEnd(*job);
    ASSERT_EQ(status.state(), proto::FINISHED) << status.reason();
    ASSERT_EQ(status.restarts_size(), 1);
    EXPECT_GE(status.restarts(0).step(), 14u);
    EXPECT_EQ(FinalWeights(status), undisturbed);
  }
}

class NcclFailure : public DeviceFailure {
 protected:
  void Start(const std::string& options) { StartOn(OneNode(options)); }
  JobId Submit(const std::string& folder) {
    return DeviceFailure::Submit(folder, "device: GPU exchange: NCCL ranks: 3",
                                 TrainOnDevice::kForEver);
  }
  void ExpectTheNextJobRuns() { ExpectTheNextRuns("device: GPU exchange: NONE"); }
};

TEST_F(NcclFailure, ARankThatIsKilledFailsTheJobByNameAndNobodyWaitsForIt) {
  Start("");
  const JobId job = Submit("killed");
  ASSERT_EQ(cluster_->WaitForStep(job, 2).state(), proto::RUNNING);
  kill(TrainOnDevice::RankProcesses().front(), SIGKILL);
  EXPECT_THAT(FailureReason(job), HasSubstr("killed by signal 9"));
  ExpectTheNextJobRuns();
}

TEST_F(NcclFailure, AnErrorOfTheLibraryFailsTheJobWithTheRankAndTheLibrarysWords) {
  Start(",nccl_fails_rank=1,nccl_fails_at=40");
  EXPECT_THAT(
      FailureReason(Submit("error")),
      HasSubstr("rank 1 (node 0, w0): device 1: NCCL: a collective: remote process exited"));
  ExpectTheNextJobRuns();
}

TEST_F(NcclFailure, AGradientThatIsNotFiniteIsItsRanks) {
  Start("");
  EXPECT_THAT(FailureReason(Submit("spoils")),
              HasSubstr("rank 1 (node 0, w0): the gradient of chunk 1 is not finite at step 3"));
  ExpectTheNextJobRuns();
}

TEST_F(NcclFailure, ARankThatNeverComesHoldsTheJobUpUntilItIsCancelled) {
  Start(",nccl_absent_rank=2");
  const JobId job = Submit("absent");
  // The ranks may take long to start before that.
  const proto::JobStatus status = cluster_->WaitFor(job, [](const proto::JobStatus& now) {
    return absl::c_any_of(now.waits(), [](const proto::Wait& wait) {
      return absl::StrContains(wait.text(), "meeting the others by NCCL, or in its first step");
    });
  });
  EXPECT_EQ(status.state(), proto::RUNNING);
  EXPECT_EQ(RunStrata({"cancel", absl::StrCat(job.value()), "--coordinator", cluster_->address()})
                .status.code,
            0);
  ExpectTheNextJobRuns();
}

TEST_F(NcclFailure, TwoRanksOnOneGpuAreRefusedWithBothNames) {
  Cluster cluster(
      {.slots = 2,
       .worker_args = {"--device-plugin", Plugin(""), "--gpus", "1", "--ranks-per-gpu", "2"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto job = cluster.Submit(
      TrainOnDevice("shared").Job("device: GPU exchange: NCCL ranks: 2", TrainOnDevice::kForEver));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(cluster.WaitForEnd(*job).reason(),
              HasSubstr("exchange: NCCL needs a GPU for each rank, but ranks 0 and 1 both have GPU "
                        "1 of w0"));
}

}  // namespace
}  // namespace strata::tests

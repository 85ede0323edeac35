// The built-in trainer on GPUs, real processes with the fake device and its cuDNN.
#include <filesystem>
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

using testing::ContainsRegex;
using testing::DoubleNear;
using testing::HasSubstr;
using testing::Pointwise;

Cluster::Options OnGpus(const std::string& options) {
  return {.servers = 1,
          .shards = 2,
          .nodes = 1,
          .slots = 4,
          .worker_args = {"--device-plugin", FakeDevices(options), "--ranks-per-gpu", "4"}};
}

// Two ranks on one node.
proto::Job Training(const std::string& name, const std::string& model, const std::string& fields) {
  proto::Job job = JobFromText(absl::StrCat(
      "ranks: 2 ranks_per_node: 2 max_steps: 30 epochs: 1000 chunk_elements: 4096 "
      "data { synthetic { height: 16 width: 16 classes: 4 train_samples: 256 test_samples: 64 } "
      "batch_per_rank: 8 } optimizer { momentum_sgd { momentum: 0.9 } } "
      "schedule { base_lr: 0.02 } metrics { every_steps: 10 } model { ",
      model, " } ", fields));
  job.set_name(name);
  return job;
}

TEST(DeviceTraining, LearnsWhatTheCpuLearnsAtTheSameLoss) {
  Cluster cluster(OnGpus("memory_mb=1024"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto host = cluster.RunToEnd(Training("host", "zoo: 'cnn'", ""));
  const auto gpus = cluster.RunToEnd(Training("gpus", "zoo: 'cnn'", "device: GPU"));
  const auto expected = Metrics(host.run_dir()), lines = Metrics(gpus.run_dir());
  ASSERT_EQ(lines.size(), expected.size());
  // The first window, before rounding has had many steps to grow.
  const double loss = expected[0].at("loss");
  EXPECT_NEAR(lines[0].at("loss").get<double>(), loss, 0.01 * loss);
  EXPECT_GT(FinalAccuracy(expected), 0.9);
  EXPECT_GT(FinalAccuracy(lines), 0.9);
  EXPECT_TRUE(std::filesystem::exists(gpus.run_dir() + "/model.safetensors"));
}

// Two gradients have the same sum in any order.
TEST(DeviceTraining, LosesTheSameWhereItsRanksAddUpByNccl) {
  Cluster cluster({.servers = 1,
                   .nodes = 1,
                   .slots = 2,
                   .worker_args = {"--device-plugin", FakeDevices("devices=2,memory_mb=1024")}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto losses = [&](const std::string& fields) {
    proto::Job job = Training("lenet", "zoo: 'lenet5'", "device: GPU " + fields);
    job.mutable_data()->mutable_synthetic()->clear_height();
    job.mutable_data()->mutable_synthetic()->clear_width();
    job.mutable_data()->mutable_synthetic()->clear_classes();
    job.set_max_steps(6);
    job.mutable_metrics()->set_every_steps(2);
    job.mutable_optimizer()->set_clip_norm(1.5);
    std::vector<double> losses;
    for (const auto& line : Metrics(cluster.RunToEnd(job).run_dir())) {
      if (line.contains("loss")) losses.push_back(line.at("loss").get<double>());
    }
    return losses;
  };
  const std::vector<double> expected = losses("");
  EXPECT_EQ(expected.size(), 3u);
  EXPECT_THAT(losses("node_sum: NCCL"), Pointwise(DoubleNear(1e-5), expected));
}

TEST(DeviceTraining, KnowsEveryPrecisionAndExchangedStatisticsAndDeferredEvaluation) {
  Cluster cluster(OnGpus("memory_mb=1024"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  for (const std::string precision : {"TF32", "BF16"}) {
    const auto status = cluster.RunToEnd(
        Training("p", absl::StrCat("zoo: 'cnn' batch_norm: LAST_BATCH precision: ", precision),
                 "device: GPU evaluation { every_steps: 10 deferred: true }"));
    EXPECT_GT(FinalAccuracy(Metrics(status.run_dir())), 0.9) << precision;
  }
}

// All losses equal those on the CPU; more closely before rounding has had many steps to grow.
void ExpectLossesLike(const proto::JobStatus& host, const proto::JobStatus& gpus) {
  const auto expected = Metrics(host.run_dir()), lines = Metrics(gpus.run_dir());
  ASSERT_EQ(lines.size(), expected.size());
  ASSERT_GE(lines.size(), 3u);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (expected[i].value("final", false)) continue;
    const double loss = expected[i].at("loss");
    EXPECT_NEAR(lines[i].at("loss").get<double>(), loss, (i == 0 ? 0.01 : 0.1) * loss) << i;
  }
  EXPECT_GT(FinalAccuracy(lines), 0.9);
}

TEST(DeviceTraining, RanksThatAddUpByNcclHaveTheLossesOfServersOnTheCpu) {
  Cluster cluster(OnGpus("devices=2,memory_mb=1024"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto host = cluster.RunToEnd(Training("host", "zoo: 'cnn'", ""));
  const auto gpus = cluster.RunToEnd(Training("nccl", "zoo: 'cnn'", "device: GPU exchange: NCCL"));
  ExpectLossesLike(host, gpus);
}

TEST(DeviceTraining, ARankAloneHasTheLossesOfOneOnTheCpu) {
  Cluster cluster(OnGpus("memory_mb=1024"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto alone = [&](const std::string& name, const std::string& fields) {
    proto::Job job = Training(name, "zoo: 'cnn'", "exchange: NONE " + fields);
    job.set_ranks(1);
    job.set_ranks_per_node(1);
    return cluster.RunToEnd(job);
  };
  ExpectLossesLike(alone("host", ""), alone("gpu", "device: GPU"));
}

// Returns the reason for the failure of a job of two ranks that have a GPU each.
std::string ReasonWith(const std::string& options, const std::string& fields) {
  Cluster cluster(
      {.servers = 1,
       .nodes = 1,
       .slots = 2,
       .worker_args = {"--device-plugin", FakeDevices("devices=2,memory_mb=1024," + options)}});
  EXPECT_EQ(cluster.Start(), absl::OkStatus());
  return cluster.RunToFailure(Training("victim", "zoo: 'mlp'", "device: GPU " + fields));
}

// The ranks' hosts then wait for their streams, and the streams for a sum that never comes.
TEST(DeviceTraining, AnErrorOfNcclFailsTheJobWithTheRankAndTheLibrarysWords) {
  for (const char* fields : {"exchange: NCCL", "node_sum: NCCL"}) {
    EXPECT_EQ(ReasonWith("nccl_fails_rank=1,nccl_fails_at=10", fields),
              "rank 1 (node 0, w0): device 1: NCCL: a collective: remote process exited or there "
              "was a network error");
  }
}

TEST(DeviceTraining, AnErrorOfADeviceFailsTheJobWithTheDeviceAndTheError) {
  for (const char* fields : {"exchange: NCCL", "exchange: PARAMETER_SERVER"}) {
    EXPECT_THAT(ReasonWith("fails_at=40", fields),
                ContainsRegex("^(rank|aggregator) .*device [01]: .*cudaErrorLaunchFailure"));
  }
}

TEST(DeviceTraining, WhatCudnnRefusesFailsTheJobWithTheLayer) {
  Cluster cluster(OnGpus("memory_mb=1024,cudnn_fails_at=60"));
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  const auto job = cluster.Submit(Training("victim", "zoo: 'cnn'", "device: GPU"));
  ASSERT_TRUE(job.ok()) << job.status();
  const proto::JobStatus status = cluster.WaitForEnd(*job);
  EXPECT_EQ(status.state(), proto::FAILED);
  EXPECT_THAT(status.reason(), HasSubstr("layer conv"));
  EXPECT_THAT(status.reason(), HasSubstr("cuDNN: cudnnBackendExecute"));
  cluster.RunToEnd(Training("next", "zoo: 'mlp'", "device: GPU"));
}

}  // namespace
}  // namespace strata::tests

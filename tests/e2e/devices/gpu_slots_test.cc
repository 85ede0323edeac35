// How a cluster assigns GPUs to jobs, with fake GPUs.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

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

// A job whose ranks only print how they were launched, and then sleep.
proto::Job ShowLaunch(const std::string& name, int ranks, int sleep_s) {
  proto::Job job = JobFromText("device: GPU");
  job.set_name(name);
  job.set_ranks(ranks);
  job.mutable_program()->set_path("/bin/sh");
  job.mutable_program()->add_args("-c");
  job.mutable_program()->add_args(absl::StrCat("cat {launch}; exec sleep ", sleep_s));
  return job;
}

std::string LogIn(const Cluster& cluster, const std::string& run, int rank) {
  return RankLog(absl::StrCat(cluster.runs_dir(), "/", run), rank);
}

nlohmann::json Worker(const Cluster& cluster) {
  const CommandResult nodes = RunStrata({"nodes", "--json", "--coordinator", cluster.address()});
  const nlohmann::json parsed = nlohmann::json::parse(nodes.out);
  for (const auto& daemon : parsed.at("daemons")) {
    if (daemon.at("role") == "worker") return daemon;
  }
  return {};
}

TEST(GpuSlots, JobsTakeGpusAndWaitForThemAndRanksAreToldWhich) {
  Cluster cluster({.slots = 8,
                   .worker_args = {"--device-plugin", FakeDevices("devices=3,memory_mb=64"),
                                   "--gpus", "0,2", "--ranks-per-gpu", "2"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  EXPECT_THAT(cluster.worker(0).ready_line, HasSubstr(" slots=8 gpus=0,2 gpu-slots=4 "));
  const auto first = cluster.Submit(ShowLaunch("first", 3, 300));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(WaitUntil([&] { return !LogIn(cluster, "first-1", 2).empty(); }));
  const auto second = cluster.Submit(ShowLaunch("second", 2, 300));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(cluster.Status(*second).reason(),
            "waits for 1 more free GPU slot: needs 2 GPU slots, 1 of 4 free; job 1 holds 3");
  const nlohmann::json worker = Worker(cluster);
  EXPECT_EQ(worker.at("gpus").size(), 2u);
  EXPECT_EQ(worker.at("gpus")[1].at("index"), 2);
  EXPECT_EQ(worker.at("gpu_slots"), 4);
  EXPECT_EQ(worker.at("gpu_slots_used"), 3);
  EXPECT_THAT(RunStrata({"status", "--coordinator", cluster.address()}).out,
              HasSubstr(", 2 GPUs with 4 slots (3 used)"));
  ASSERT_EQ(RunStrata({"cancel", absl::StrCat(first->value()), "--coordinator", cluster.address()})
                .status.code,
            0);
  EXPECT_TRUE(WaitUntil([&] {
    return LogIn(cluster, "second-2", 0).find("devices:") != std::string::npos &&
           LogIn(cluster, "second-2", 1).find("devices:") != std::string::npos;
  }));
  const std::string plugin =
      "device_plugin: \"/[^\n]*/libstrata_fake_device.so,devices=3,memory_mb=64\"\n";
  EXPECT_THAT(LogIn(cluster, "first-1", 1), testing::ContainsRegex(plugin));
  EXPECT_THAT(LogIn(cluster, "first-1", 1), HasSubstr("devices: 0\ndevices: 2\ndevices: 0\n"));
  EXPECT_THAT(LogIn(cluster, "second-2", 1), HasSubstr("devices: 0\ndevices: 2\n"))
      << "what the first job held is free again";
}

TEST(GpuSlots, AWorkerSaysWhatIsWrongWithItsDevicesAndDoesNotStart) {
  const auto why = [](std::vector<std::string> args) {
    args.insert(args.begin(), {"worker", "--coordinator", "127.0.0.1:1"});
    const CommandResult result = RunStrata(args);
    EXPECT_NE(result.status.code, 0);
    EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]*\n"));
    return result.err;
  };
  EXPECT_THAT(why({"--device-plugin", "no/such.so"}), HasSubstr("no/such.so: is not there"));
  EXPECT_THAT(why({"--device-plugin", FakeDevices("devices=0")}),
              HasSubstr("no CUDA-capable device"));
  EXPECT_THAT(why({"--device-plugin", FakeDevices("devices=2"), "--gpus", "0,2"}),
              HasSubstr("--gpus 2: the devices here are 0,1"));
  EXPECT_THAT(why({"--gpus", "first"}), HasSubstr("must be none, or ascending indices"));
  EXPECT_THAT(why({"--device-plugin", FakeDevices("devices=2"), "--ranks-per-gpu", "1000"}),
              HasSubstr("ranks-per-gpu: 1000 on 2 GPUs are not 1 to 1024 in all"));
}

TEST(GpuSlots, ALocalClustersWorkersHaveThemTooAndAJobThatNeverFitsSaysWhy) {
  const std::string job = WriteJob(TestDir(), ShowLaunch("big", 3, 1));
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"local", "--runs", TestDir() + "/runs", "--job", job};
    args.insert(args.end(), more.begin(), more.end());
    const CommandResult result = RunStrata(args);
    EXPECT_EQ(result.status.code, 1);
    return absl::StrCat(result.out, result.err);
  };
  EXPECT_THAT(
      run({"--device-plugin", FakeDevices("devices=2")}),
      HasSubstr("can never fit: needs 3 GPU slots, but the one worker node has 2 GPU slots: "
                "w0 2"));
  EXPECT_THAT(run({"--gpus", "none"}),
              HasSubstr("needs 3 GPU slots, but the one worker node has 0 GPU slots: w0 0; `strata "
                        "devices` there says why"));
}

// A job of the built-in trainer with 4 steps.
std::string TrainingJob(int ranks) {
  proto::Job job = JobFromText(
      "device: GPU model { zoo: 'mlp' } epochs: 1 schedule { base_lr: 0.01 } data { synthetic { "
      "train_samples: 64 test_samples: 16 } batch_per_rank: 8 }");
  job.set_name("trained");
  job.set_ranks(ranks);
  return WriteJob(TestDir(), job);
}

TEST(GpuSlots, AComparisonOrSweepThatNeverFitsTheGpusIsRefusedBeforeAnythingRuns) {
  const auto refused = [](std::vector<std::string> args) {
    for (const char* more : {"--slots", "4", "--out"}) args.push_back(more);
    args.push_back(TestDir() + "/out");
    const CommandResult result = RunStrata(args);
    EXPECT_EQ(result.status.code, 2) << result.out;
    EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]*\n"));
    EXPECT_FALSE(std::filesystem::exists(TestDir() + "/out"));
    return result.err;
  };
  const std::string job = TrainingJob(3), two = FakeDevices("devices=2");
  EXPECT_THAT(refused({"compare", job, "--modes", "sync", "--device-plugin", two}),
              HasSubstr("mode sync: device: GPU: needs 3 GPU slots, but the one worker node has 2 "
                        "GPU slots: w0 2"));
  EXPECT_THAT(refused({"sweep", job, "--vary", "data.batch_per_rank=4,8", "--device-plugin", two,
                       "--gpus", "1", "--ranks-per-gpu", "2"}),
              HasSubstr("needs 3 GPU slots, but the one worker node has 2 GPU slots: w0 2"));
  EXPECT_THAT(refused({"compare", job, "--modes", "sync", "--gpus", "none"}),
              HasSubstr("needs 3 GPU slots, but the one worker node has 0 GPU slots"));
  EXPECT_THAT(refused({"compare", job, "--modes", "sync", "--gpus", "0", "--coordinator", "h:1"}),
              HasSubstr("--gpus excludes --coordinator"));
}

TEST(GpuSlots, AComparisonOnGpusRunsOnNodesThatShareThem) {
  const CommandResult result =
      RunStrata({"compare", TrainingJob(2), "--modes", "sync,async", "--seeds", "1", "--nodes", "2",
                 "--slots", "2", "--device-plugin", FakeDevices("devices=2,memory_mb=512"), "--out",
                 TestDir() + "/out"});
  EXPECT_EQ(result.status.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 workers with 4 slots and 2 GPU slots"));
}

}  // namespace
}  // namespace strata::tests

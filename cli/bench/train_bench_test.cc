#include "cli/bench/train_bench.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/bench/train_case.h"
#include "cli/bench/train_jobs.h"
#include "common/job/job.h"
#include "common/job/zoo.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// The measured program is a script that reports its training.

namespace strata::cli {

namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

// A trainer with 8 samples a step: 1 rank alone makes 1,000 images/s; jobs of several ranks 1,500
// in all. With NCCL it does as the argument says.
std::string Trainer(const std::string& name, const std::string& nccl) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << R"(#!/bin/bash
for word in "$@"; do
  case "$word" in
    ranks=*) ranks=${word#*=} ;;
    max_steps=*) steps=${word#*=} ;;
    run_dir=*) dir=$(eval echo "${word#*=}") ;;
    exchange=NCCL) )" << nccl
                      << R"( ;;
  esac
done
mkdir -p "$dir"
rate=1000
[ "$ranks" -eq 1 ] || rate=1500
for part in 2 1; do
  echo "{\"samples_per_s\": $rate, \"samples\": $((steps * ranks * 8 / part)), \"loss\": 0.5}"
done >"$dir/metrics.jsonl"
echo weights >"$dir/model.safetensors"
)";
  chmod(path.c_str(), 0755);
  return path;
}

TrainBenchOptions Options(const std::string& binary) {
  TrainBenchOptions options;
  options.binary = binary;
  options.job_text = "name: \"j\"";
  options.batch = 8;
  options.cases.modes = {"sync", "nccl"};
  options.gpus = {.gpus = {0}, .ranks_per_gpu = 2};
  options.steps = 8;
  options.rounds = 2;
  return options;
}

void Ignore(const std::string&) {}

TEST(TrainBenchTest, EfficiencyAndShareAreOfTheSameRoundsRates) {
  const auto result = RunTrainBench(Options(Trainer("plain", "")), Ignore);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->wrong, "");
  ASSERT_EQ(result->figures.size(), 6u);
  const TrainFigures& none2 = result->figures[3];
  EXPECT_EQ(none2.rate.median, 2000) << "two jobs of one rank side by side";
  EXPECT_THAT(none2.efficiencies, ElementsAre(DoubleEq(1), DoubleEq(1)));
  const TrainFigures& sync2 = result->figures[4];
  EXPECT_THAT(sync2.medians, ElementsAre(1500, 1500));
  EXPECT_THAT(sync2.efficiencies, ElementsAre(DoubleEq(0.75), DoubleEq(0.75)));
  EXPECT_EQ(sync2.share, 0.75);
}

TEST(TrainBenchTest, WhatTheMachineHasNoGpusForIsACaseThatSaysSo) {
  const auto result = RunTrainBench(Options(Trainer("one", "")), Ignore);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->figures[2].why_not, "") << "NCCL with one rank";
  EXPECT_EQ(result->figures[5].what.mode, "nccl");
  EXPECT_EQ(result->figures[5].why_not, "NCCL needs a GPU for each rank: 2 ranks, 1 GPU");
  EXPECT_EQ(result->wrong, "");
}

TEST(TrainBenchTest, AMachineWithoutNcclIsNoError) {
  const std::string without =
      "echo 'strata: error: rank 0: libnccl.so.2: cannot open shared object' >&2; exit 1";
  const auto result = RunTrainBench(Options(Trainer("without", without)), Ignore);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->figures[2].why_not, HasSubstr("rank 0: libnccl.so.2: cannot open"));
  EXPECT_EQ(result->wrong, "");
  EXPECT_EQ(result->figures[4].medians.size(), 2u) << "the others are measured";
}

TEST(TrainBenchTest, AJobThatFailsOtherwiseIsOneAndTheOthersAreMeasured) {
  const std::string fails = "echo 'strata: error: a bug' >&2; exit 1";
  const auto result = RunTrainBench(Options(Trainer("fails", fails)), Ignore);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->wrong,
            "nccl, 1 ranks: strata local exited with status 1: strata: error: a bug");
  EXPECT_EQ(result->figures[2].why_not, result->wrong);
  EXPECT_TRUE(result->figures[2].medians.empty());
  EXPECT_EQ(result->figures[4].medians.size(), 2u);
}

std::string TextOf(const std::vector<TrainCase>& cases) {
  return absl::StrJoin(cases, " ", [](std::string* out, const TrainCase& what) {
    absl::StrAppend(out, what.mode, what.ranks, "/", what.nodes);
  });
}

TEST(CasesOfTest, RanksArePowersOfTwoUpToTheMostAndThat) {
  EXPECT_EQ(TextOf(MakeCases({.modes = {"sync"}, .ranks_max = 6})),
            "none1/1 sync1/1 none2/2 sync2/1 none4/4 sync4/1 none6/6 sync6/1");
  EXPECT_EQ(TextOf(MakeCases({.modes = {"sync"}, .ranks_max = 1})), "none1/1 sync1/1");
}

TEST(CasesOfTest, ARingHasANodePerRankAndAtLeastTwo) {
  EXPECT_EQ(TextOf(MakeCases({.modes = {"ring", "nccl"}, .ranks_max = 2})),
            "none1/1 nccl1/1 none2/2 ring2/2 nccl2/1");
}

TEST(CasesOfTest, NodesAreFilledWhereTheirSizeIsSaid) {
  EXPECT_EQ(TextOf(MakeCases({.modes = {"async", "ring"}, .ranks_max = 8, .ranks_per_node = 2})),
            "none1/1 async1/1 none2/2 async2/1 none4/4 async4/2 ring4/2 none8/8 async8/4 ring8/4");
  // 4 ranks fill no nodes of 3.
  EXPECT_EQ(TextOf(MakeCases({.modes = {"sync"}, .ranks_max = 6, .ranks_per_node = 3})),
            "none1/1 sync1/1 none2/2 sync2/1 none4/4 none6/6 sync6/2");
}

TEST(CheckModesTest, AnUnknownOneIsRefusedByName) {
  EXPECT_TRUE(CheckModes({"sync", "lazy", "async", "ring", "nccl"}).ok());
  EXPECT_EQ(CheckModes({"sync", "none"}).message(),
            "--modes none: not one of sync, lazy, async, ring, nccl");
}

TEST(WhyNotTest, NcclNeedsAGpuForEachRankAndRanksASlot) {
  const GpuRoom one = {{3}, 2};
  EXPECT_EQ(WhyNot({"nccl", 1, 1}, one), "");
  EXPECT_EQ(WhyNot({"nccl", 2, 1}, one), "NCCL needs a GPU for each rank: 2 ranks, 1 GPU");
  EXPECT_EQ(WhyNot({"nccl", 2, 1}, {{0, 1}, 1}), "");
  EXPECT_EQ(WhyNot({"sync", 2, 1}, one), "");
  EXPECT_EQ(WhyNot({"sync", 4, 1}, one),
            "a node's 4 ranks have 2 GPU slots (--gpus, --ranks-per-gpu)");
  EXPECT_EQ(WhyNot({"ring", 4, 4}, one), "") << "nodes that share a GPU each have its slots";
  EXPECT_EQ(WhyNot({"ring", 4, 2}, {{0, 1, 2}, 1}),
            "a node's 2 ranks have 1 GPU slot (--gpus, --ranks-per-gpu)");
  EXPECT_EQ(WhyNot({"none", 8, 8}, one), "");
  EXPECT_EQ(WhyNot({"nccl", 8, 1}, {}), "") << "on a CPU the job itself says so";
}

// Returns the word after an option, "" if the option is missing.
std::string After(const std::vector<std::string>& command, const std::string& option) {
  const auto at = absl::c_find(command, option);
  return at == command.end() ? "" : *(at + 1);
}

TEST(CommandOfTest, AClusterHasTheRanksNodesAndServersOfTheCase) {
  const TrainRun run = {.job = "j",
                        .steps = 80,
                        .servers = 3,
                        .cluster = {"--device-plugin", "p"},
                        .gpus = {1, 2},
                        .dir = "d"};
  const auto sync = MakeCommand({"lazy", 8, 4}, run);
  EXPECT_EQ(After(sync, "--nodes") + After(sync, "--slots") + After(sync, "--servers"), "423");
  EXPECT_EQ(After(sync, "--mode"), "lazy");
  EXPECT_EQ(After(sync, "--device-plugin"), "p");
  EXPECT_EQ(After(sync, "--gpus"), "1,2");
  EXPECT_TRUE(absl::c_linear_search(sync, "ranks=8"));
  EXPECT_TRUE(absl::c_linear_search(sync, "ranks_per_node=2"));
  EXPECT_TRUE(absl::c_linear_search(sync, "metrics.every_steps=10"));
  EXPECT_EQ(After(sync, "--runs"), "d");
  EXPECT_TRUE(absl::c_linear_search(sync, "run_dir=\"d/run\"")) << "below it";
  const auto ring = MakeCommand({"ring", 2, 2}, run);
  EXPECT_EQ(After(ring, "--nodes") + After(ring, "--slots") + After(ring, "--servers"), "210");
  EXPECT_EQ(After(ring, "--mode"), "sync");
  EXPECT_TRUE(absl::c_linear_search(ring, "exchange=RING"));
}

TEST(CommandOfTest, WhoExchangesNothingIsOneRankAlone) {
  const auto none = MakeCommand({"none", 4, 4}, {.job = "j", .steps = 2, .servers = 3, .dir = "d"});
  EXPECT_EQ(After(none, "--nodes") + After(none, "--slots") + After(none, "--servers"), "110");
  EXPECT_EQ(After(none, "--mode") + After(none, "--gpus"), "");
  EXPECT_TRUE(absl::c_linear_search(none, "ranks=1"));
  EXPECT_TRUE(absl::c_linear_search(none, "exchange=NONE"));
}

TEST(BenchModelsTest, AreGivenByNameOrInGroupsEachOnce) {
  EXPECT_EQ(*ParseModels({"cnn", "mlp"}), (std::vector<std::string>{"cnn", "mlp"}));
  EXPECT_EQ(*ParseModels({"all"}), ZooNames());
  EXPECT_EQ(*ParseModels({"cnn", "small"}),
            (std::vector<std::string>{"cnn", "mlp", "lenet5", "resnet8", "resnet20"}));
}

TEST(BenchModelsTest, AnUnknownOneIsRefusedByName) {
  const absl::Status status = ParseModels({"mlp", "pigeon"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message().substr(0, 29), "--models pigeon: not one of m");
}

TEST(BenchModelsTest, TheJobOfEachModelOfTheZooIsValid) {
  for (const std::string& model : ZooNames()) {
    auto job = ParseJob(MakeJobText(model, 0, false), model);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->model().zoo(), model);
    FillDefaults(&*job);
    job->set_max_steps(1);
    EXPECT_TRUE(ValidateJob(*job).ok()) << ValidateJob(*job);
  }
}

TEST(BenchModelsTest, BatchesAreSmallerWhereImagesAreLargeUnlessOnAGpuOrSaid) {
  auto batch = [](const std::string& model, uint32_t said, bool on_gpu) {
    return ParseJob(MakeJobText(model, said, on_gpu), "")->data().batch_per_rank();
  };
  EXPECT_EQ(batch("lenet5", 0, false), 64u);
  EXPECT_EQ(batch("resnet50", 0, false), 8u);
  EXPECT_EQ(batch("resnet50", 0, true), 64u);
  EXPECT_EQ(batch("resnet50", 5, true), 5u);
}

TEST(WindowsOfTest, RatesAreThoseOfTheWindowsAfterTheFirst) {
  const auto windows = ParseWindows(
      "{\"step\":5,\"samples\":50,\"loss\":2.5,\"samples_per_s\":10.0}\n"
      "{\"step\":10,\"samples\":100,\"loss\":2,\"samples_per_s\":200.5}\n"
      "{\"step\":15,\"samples\":150,\"loss\":1.5,\"samples_per_s\":300}\n"
      "{\"step\":16,\"samples\":160,\"loss\":1.0,\"samples_per_s\":0.0,"
      "\"final\":true}\n");
  EXPECT_EQ(windows->rates, (std::vector<double>{200.5, 300}));
  EXPECT_EQ(windows->samples, 160u);
  EXPECT_TRUE(windows->has_finite_losses);
}

TEST(WindowsOfTest, ALossThatIsNullIsNotFinite) {
  const auto windows = ParseWindows(
      "{\"samples\":50,\"loss\":2.5,\"samples_per_s\":10.0}\n"
      "{\"samples\":100,\"loss\":null,\"samples_per_s\":200.5}\n");
  EXPECT_FALSE(windows->has_finite_losses);
}

TEST(WindowsOfTest, OneWindowIsTooFew) {
  EXPECT_EQ(ParseWindows("{\"samples\":1,\"samples_per_s\":10.0}\n").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ParseWindows("").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(WindowsOfTest, WhatIsNoRecordIsAnError) {
  for (const char* line :
       {"{", "3", "{\"samples\":1,\"samples_per_s\":\"fast\"}", "{}", "{\"samples_per_s\":10.0}"}) {
    EXPECT_EQ(ParseWindows(line).status().code(), absl::StatusCode::kInvalidArgument) << line;
  }
}

}  // namespace

}  // namespace strata::cli

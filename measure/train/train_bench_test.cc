// The program that is measured is a script that says it trained.
#include "measure/train/train_bench.h"

#include <sys/stat.h>

#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::bench {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

// Of 8 samples a step: 1 rank alone makes 1,000 images/s; jobs of several ranks 1,500 in all. By
// NCCL it does what the first argument says.
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

}  // namespace
}  // namespace strata::bench

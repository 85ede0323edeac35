// `strata bench train` on fake GPUs, whose speed is not checked.
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/device_jobs.h"

namespace strata::tests {
namespace {

using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

CommandResult BenchTrain(const std::string& devices, const std::vector<std::string>& more) {
  std::vector<std::string> args = {"bench",   "train", "--device-plugin", FakeDevices(devices),
                                   "--steps", "8"};
  args.insert(args.end(), more.begin(), more.end());
  return RunStrata(args);
}

std::vector<std::string> MakeCases(const nlohmann::json& model) {
  std::vector<std::string> cases;
  for (const auto& one : model.at("cases")) {
    cases.push_back(absl::StrCat(one.at("mode").get<std::string>(), one.at("ranks").get<int>(), "/",
                                 one.at("nodes").get<int>(),
                                 one.contains("why_not") ? " not" : ""));
  }
  return cases;
}

// Relative figures refer to one rank, or the same number of ranks, without an exchange in the same
// round.
void ExpectRelativeFigures(const nlohmann::json& cases, size_t rounds) {
  const auto rates = [](const nlohmann::json& one) {
    return one.at("images_per_s_by_round").get<std::vector<double>>();
  };
  const std::vector<double> base = rates(cases[0]);
  std::vector<double> side_by_side;
  for (const auto& one : cases) {
    const std::vector<double> own = rates(one);
    ASSERT_EQ(own.size(), rounds);
    if (one.at("mode") == "none") side_by_side = own;
    std::vector<double> efficiencies, shares;
    for (size_t i = 0; i < rounds; ++i) {
      EXPECT_GT(own[i], 0);
      efficiencies.push_back(own[i] / (one.at("ranks").get<double>() * base[i]));
      shares.push_back(own[i] / side_by_side[i]);
      EXPECT_DOUBLE_EQ(one.at("efficiency_by_round")[i], efficiencies[i]) << one;
      EXPECT_DOUBLE_EQ(one.at("share_by_round")[i], shares[i]) << one;
    }
    EXPECT_DOUBLE_EQ(one.at("share"), (shares.front() + shares.back()) / 2) << one;
  }
}

TEST(BenchTrainOnDevices, MeasuresEveryExchangeBesideRanksThatExchangeNothing) {
  const CommandResult result =
      BenchTrain("devices=2", {"--device", "GPU", "--models", "mlp", "--batch", "4", "--rounds",
                               "2", "--modes", "sync,lazy,async,ring,nccl", "--json"});
  ASSERT_EQ(result.status.code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report.at("gpus").size(), 2u);
  EXPECT_TRUE(report.at("verified"));
  const nlohmann::json& model = report.at("models")[0];
  EXPECT_EQ(model.at("device"), "GPU");
  EXPECT_THAT(MakeCases(model),
              ElementsAre("none1/1", "sync1/1", "lazy1/1", "async1/1", "nccl1/1", "none2/2",
                          "sync2/1", "lazy2/1", "async2/1", "ring2/2", "nccl2/1"));
  ExpectRelativeFigures(model.at("cases"), 2);
}

// A user's job file that says itself where it computes.
std::string OwnJob() {
  const std::string path = TestDir() + "/own.textproto";
  std::ofstream(path) << "name: \"own\" device: GPU model { zoo: \"lenet5\" precision: TF32 }\n"
                         "data { synthetic { train_samples: 512 test_samples: 16 } "
                         "batch_per_rank: 2 } schedule { base_lr: 0.01 }\n";
  return path;
}

TEST(BenchTrainOnDevices, WhatTheMachineCannotRunIsARowThatSaysWhy) {
  const CommandResult result =
      BenchTrain("devices=1", {"--job", OwnJob(), "--rounds", "1", "--modes", "sync,nccl"});
  ASSERT_EQ(result.status.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(", batch 2 a rank, on GPU in TF32; verified: finite losses"));
  EXPECT_THAT(result.out, ContainsRegex("\nsync +2 +1 +[0-9]+ "));
  EXPECT_THAT(result.out,
              ContainsRegex("\nnccl +2 +1( +-){8} +NCCL needs a GPU for each rank: 2 ranks, 1 "
                            "GPU\n"));
}

TEST(BenchTrainOnDevices, TooFewSlotsAreSaidInTheRowToo) {
  const CommandResult result = BenchTrain(
      "devices=2", {"--device", "GPU", "--models", "mlp", "--batch", "4", "--rounds", "1",
                    "--modes", "sync", "--gpus", "1", "--ranks-per-gpu", "1", "--json"});
  ASSERT_EQ(result.status.code, 0) << result.err;
  const nlohmann::json report = nlohmann::json::parse(result.out);
  EXPECT_EQ(report.at("gpus").size(), 1u);
  EXPECT_THAT(MakeCases(report.at("models")[0]),
              ElementsAre("none1/1", "sync1/1", "none2/2", "sync2/1 not"));
}

TEST(BenchTrainOnDevices, WithoutTheDeviceItSaysWhyInOneLine) {
  const auto why = [](const std::string& devices, const std::vector<std::string>& more) {
    std::vector<std::string> args = {"--device", "GPU", "--models", "mlp"};
    args.insert(args.end(), more.begin(), more.end());
    const CommandResult result = BenchTrain(devices, args);
    EXPECT_NE(result.status.code, 0);
    EXPECT_THAT(result.err, MatchesRegex("strata: error: [^\n]*\n"));
    return result.err;
  };
  EXPECT_THAT(why("devices=0", {}), HasSubstr("no CUDA-capable device"));
  EXPECT_THAT(why("devices=2", {"--gpus", "2"}), HasSubstr("--gpus 2: the devices here are 0,1"));
  EXPECT_THAT(why("devices=2", {"--gpus", "none"}),
              HasSubstr("--device GPU, but there is none: --gpus none"));
  EXPECT_THAT(why("devices=2", {"--set", "device=CPU", "--modes", "sync,nccl"}),
              HasSubstr("--modes nccl: needs --device GPU"));
}

}  // namespace
}  // namespace strata::tests

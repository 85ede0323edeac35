#include "cli/bench/train_report.h"

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

TrainFigures Figures(const TrainCase& what, double rate, double efficiency) {
  TrainFigures figures;
  figures.what = what;
  figures.steps = 40;
  figures.medians = {rate - 1, rate, rate + 2};
  figures.rate = {rate, rate - 1, rate + 2};
  figures.efficiencies = {efficiency};
  figures.efficiency = {efficiency, efficiency, efficiency};
  figures.step = {0.5, 0.75, 1.25};
  figures.share = 0.8;
  return figures;
}

TrainReport Sample() {
  TrainReport report;
  report.machine = {2, "Some Processor", 0.25};
  report.cases.ranks_max = 4;
  TrainedModel model;
  model.name = "<i>lenet5";
  model.result.figures = {Figures({"none", 1, 1}, 1000, 1), Figures({"sync", 1, 1}, 900, 0.9),
                          Figures({"none", 4, 4}, 2000, 0.5), Figures({"sync", 4, 1}, 1600, 0.4)};
  report.models = {model};
  return report;
}

TEST(TrainReportTest, RulesStateTheBaseTheMachineAndRanksThatAreMoreThanCores) {
  const std::string rules = absl::StrJoin(ListRules(Sample()), "\n");
  EXPECT_TRUE(absl::StrContains(rules, "base: 1 rank, exchange NONE"));
  EXPECT_TRUE(absl::StrContains(rules, "2 cores (Some Processor), load average 0.2"));
  EXPECT_TRUE(absl::StrContains(rules, "4 ranks on 2 cores: efficiency is at most 0.50"));
  TrainReport few = Sample();
  few.cases.ranks_max = 2;
  EXPECT_FALSE(absl::StrContains(absl::StrJoin(ListRules(few), "\n"), "at most"));
  TrainReport gpu = Sample();
  gpu.models[0].is_on_gpu = true;
  gpu.gpus = {"Some GPU", "Some GPU"};
  EXPECT_FALSE(absl::StrContains(absl::StrJoin(ListRules(gpu), "\n"), "note"));
  EXPECT_TRUE(absl::StrContains(absl::StrJoin(ListRules(gpu), "\n"), "GPUs: Some GPU, Some GPU;"));
}

TEST(TrainReportTest, ARowHasMediansAndTheRangeOfTheRounds) {
  const auto rows = TableRows(Sample().models[0]);
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(absl::StrJoin(rows[1], "|"), "none|1|1|1000|999 - 1002|1.000|base|0.750|1.250||");
  EXPECT_EQ(absl::StrJoin(rows[4], "|"),
            "sync|4|1|1600|1599 - 1602|0.400|0.400 - 0.400|0.750|1.250|0.800|+25.0 %");
}

TEST(TrainReportTest, WhatWasWrongStandsInTheTitleAndInJson) {
  TrainReport report = Sample();
  EXPECT_TRUE(absl::StrContains(ModelTitle(report.models[0]), "verified: "));
  EXPECT_TRUE(nlohmann::json::parse(ToJson(report))["verified"]);
  report.models[0].result.wrong = "sync, 4 ranks: a loss is not finite";
  EXPECT_TRUE(
      absl::EndsWith(ModelTitle(report.models[0]), "WRONG: sync, 4 ranks: a loss is not finite"));
  const auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_FALSE(json["verified"]);
  EXPECT_EQ(json["models"][0]["wrong"], report.models[0].result.wrong);
}

TEST(TrainReportTest, JsonHasAllCasesWithTheirRounds) {
  const auto json = nlohmann::json::parse(ToJson(Sample()));
  const auto& last = json["models"][0]["cases"][3];
  EXPECT_EQ(last["mode"], "sync");
  EXPECT_EQ(last["ranks"], 4);
  EXPECT_EQ(last["images_per_s_by_round"], (std::vector<double>{1599, 1600, 1602}));
  EXPECT_EQ(last["efficiency"], 0.4);
}

TEST(TrainReportTest, ACaseThatDidNotRunIsARowThatSaysWhyAndNoPointInAPicture) {
  TrainReport report = Sample();
  TrainFigures none;
  none.what = {"nccl", 4, 1};
  none.why_not = "NCCL needs a GPU for each rank";
  report.models[0].result.figures.push_back(none);
  EXPECT_EQ(absl::StrJoin(TableRows(report.models[0])[5], "|"),
            "nccl|4|1|-|-|-|-|-|-|-|-|NCCL needs a GPU for each rank");
  const auto json = nlohmann::json::parse(ToJson(report))["models"][0]["cases"][4];
  EXPECT_EQ(json["why_not"], none.why_not);
  EXPECT_FALSE(json.contains("images_per_s"));
  EXPECT_FALSE(absl::StrContains(RatesPicture(report.models[0]), ">nccl<"));
}

TEST(TrainPageTest, HasATableAndTwoPicturesAndNamesAreText) {
  const std::string page = RenderPage(Sample());
  EXPECT_TRUE(absl::StrContains(page, "<h2>&lt;i&gt;lenet5, batch 64"));
  EXPECT_FALSE(absl::StrContains(page, "<i>"));
  EXPECT_TRUE(absl::StrContains(page, "<td>1599 - 1602</td>"));
  size_t pictures = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at) ++pictures;
  EXPECT_EQ(pictures, 2u);
}

TEST(TrainPageTest, APictureHasALinePerModeAndThatOfTheBase) {
  const std::string svg = RatesPicture(Sample().models[0]);
  for (const char* name : {">none: as many jobs side by side<", ">sync<", ">ranks x the base<"}) {
    EXPECT_TRUE(absl::StrContains(svg, name)) << name;
  }
  EXPECT_FALSE(absl::StrContains(svg, ">0.5<")) << "of a rank";
}

TEST(MachineTest, TheProcessorIsTheFirstOneOfCpuinfo) {
  EXPECT_EQ(ProcessorIn("processor\t: 0\nmodel name\t: A: B \nmodel name\t: C\n"), "A: B");
  EXPECT_EQ(ProcessorIn("Processor : 0\n"), "");
  EXPECT_GE(ThisMachine().cores, 1u);
}

}  // namespace
}  // namespace strata::cli

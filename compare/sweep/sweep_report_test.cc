#include "compare/sweep/sweep_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/sweep/sample_sweep.h"
#include "compare/sweep/sweep_lines.h"
#include "compare/sweep/sweep_pictures.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SweepReport, TableAndWordsSayWhatIsBest) {
  const SweepReport report = SampleSweep();
  const auto rows = SweepTable(report);
  EXPECT_THAT(rows[0],
              ElementsAre("schedule.base_lr", "push.codec", "accuracy", "steps", "time", "runs"));
  EXPECT_THAT(rows[2], ElementsAre("0.03", "FP16", "80.00 %", "100", "12.5 s", "1"));
  EXPECT_THAT(rows[6][2], "-");
  EXPECT_THAT(rows[6][5], "1, 1 failed");
  const auto words = SweepWords(report);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_THAT(words[0], HasSubstr("Best: schedule.base_lr=0.03, push.codec="));
  EXPECT_THAT(words[0], HasSubstr("83.00 %"));
}

TEST(SweepReport, HalvingSaysWhatItSaved) {
  // 4 x 25 + 2 x 50 + 100 steps of 10 samples instead of 400.
  EXPECT_THAT(SweepWords(HalvedSweep())[1],
              "Halving: trained on 3.00 k samples in 3 rungs, each from the start; the whole grid "
              "takes 4.00 k: saved 25.0 %.");
}

// 100 samples less for each 10 steps of a run.
SweepReport GoneOnSweep(size_t runs, uint64_t steps) {
  SweepReport report = HalvedSweep();
  report.result.resumed_runs = runs;
  report.result.resumed_steps = steps;
  report.result.samples -= 10 * steps;
  report.result.ranking[0].runs[0].resumed_step = 50;
  report.result.ranking[1].runs[0].began_anew = "no complete checkpoint";
  return report;
}

TEST(SweepReport, HalvingSaysWhatRunsHadFromCheckpoints) {
  // 4 x 25 + 2 x 25 + 50 steps.
  EXPECT_THAT(SweepWords(GoneOnSweep(3, 100)),
              ElementsAre(HasSubstr("Best: "),
                          "Halving: trained on 2.00 k samples in 3 rungs, each from checkpoints of "
                          "the one before; the whole grid takes 4.00 k: saved 50.0 %.",
                          "Later rungs made 100 of their runs' 200 steps; the others they had from "
                          "checkpoints."));
  const SweepReport some = GoneOnSweep(2, 75);
  EXPECT_THAT(SweepWords(some)[1],
              HasSubstr("in 3 rungs, 2 of 3 later runs from a checkpoint of the rung before; "));
  const auto json = nlohmann::json::parse(SweepJson(some));
  EXPECT_EQ(json["samples"], 2250);
  EXPECT_EQ(json["later_steps"], 200);
  EXPECT_EQ(json["resumed_steps"], 75);
  EXPECT_EQ(json["points"][0]["runs"][0]["resumed_step"], 50);
  EXPECT_EQ(json["points"][1]["runs"][0]["began_anew"], "no complete checkpoint");
  EXPECT_THAT(std::string(json["rules"][2]), HasSubstr("from a checkpoint of the rung before"));
  const auto again = nlohmann::json::parse(SweepJson(HalvedSweep()));
  EXPECT_THAT(std::string(again["rules"][2]), HasSubstr("from the start again"));
}

TEST(SweepReport, TheDocumentHasAllPoints) {
  const auto json = nlohmann::json::parse(SweepJson(HalvedSweep()));
  EXPECT_EQ(json["vary"][0]["axis"], "linear");
  EXPECT_EQ(json["points"].size(), 4u);
  EXPECT_EQ(json["points"][0]["values"][0], "0.9");
  EXPECT_EQ(json["points"][0]["whole"], true);
  EXPECT_EQ(json["points"][1]["steps"], 50);
  EXPECT_EQ(json["points"][1]["whole"], false);
  EXPECT_EQ(json["points"][3]["rung"], 1);
  EXPECT_EQ(json["samples"], 3000);
  EXPECT_EQ(json["grid_samples"], 4000);
  EXPECT_EQ(nlohmann::json::parse(SweepJson(SampleSweep()))["points"][5]["accuracy"], nullptr);
}

TEST(SweepLines, ALinePerChoiceOfTheOtherFields) {
  const SweepReport report = SampleSweep();
  const auto by_rate = MakeSweepLines(report.plan, report.result, 0);
  ASSERT_EQ(by_rate.size(), 2u);
  EXPECT_EQ(by_rate[0].name, "push.codec=FP16");
  ASSERT_EQ(by_rate[0].points.size(), 3u);
  EXPECT_DOUBLE_EQ(by_rate[0].points[0].x, -2);
  EXPECT_EQ(by_rate[0].points[1].accuracy, 0.8);
  EXPECT_EQ(by_rate[1].points.size(), 2u);  // without the failed one
  const auto by_codec = MakeSweepLines(report.plan, report.result, 1);
  ASSERT_EQ(by_codec.size(), 3u);
  EXPECT_EQ(by_codec[2].name, "schedule.base_lr=0.1");
  const SweepReport halved = HalvedSweep();
  const auto only = MakeSweepLines(halved.plan, halved.result, 0);
  ASSERT_EQ(only.size(), 1u);
  EXPECT_EQ(only[0].name, "");
  EXPECT_TRUE(only[0].points[3].is_whole);
  EXPECT_FALSE(only[0].points[2].is_whole);
  EXPECT_EQ(only[0].points[2].rung, 1u);
}

// How often `what` occurs.
size_t CountIn(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(SweepPictures, ShowEachPointAndJoinThoseOfARung) {
  const SweepReport report = SampleSweep();
  const std::string svg =
      SweepSvg(report.plan.vary[0], MakeSweepLines(report.plan, report.result, 0));
  EXPECT_EQ(CountIn(svg, "<rect class=\"bar"), 5u);
  // Two and one pieces of lines, and a legend of two.
  EXPECT_EQ(CountIn(svg, "<polyline"), 3u + 2);
  EXPECT_THAT(svg, HasSubstr("schedule.base_lr, log scale"));
  EXPECT_THAT(svg, HasSubstr(">0.03</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  const SweepReport halved = HalvedSweep();
  const std::string hollow =
      SweepSvg(halved.plan.vary[0], MakeSweepLines(halved.plan, halved.result, 0));
  EXPECT_EQ(CountIn(hollow, "<rect class=\"bar"), 1u);
  // Three hollow marks, and a line between the two of the first rung; no legend.
  EXPECT_EQ(CountIn(hollow, "<polyline"), 3u + 1);
}

}  // namespace
}  // namespace strata::compare

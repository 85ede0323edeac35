#include "compare/campaign/sweep_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/campaign/sample_sweep.h"
#include "compare/campaign/sweep_pictures.h"

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

TEST(SweepReport, NoneIsBestOfPointsThatEndExactlyAlike) {
  SweepReport report = SampleSweep();
  std::vector<PointResult>& ranking = report.result.ranking;
  ranking.resize(3);
  for (PointResult& point : ranking) point.accuracy = ranking[0].accuracy;
  EXPECT_THAT(
      SweepWords(report),
      ElementsAre("None is best: all 3 points end with exactly the same 83.00 % on the test "
                  "data, so nothing shows that schedule.base_lr or push.codec has an "
                  "effect."));
  ranking[2].accuracy->mean -= 1e-9;
  EXPECT_THAT(SweepWords(report)[0], HasSubstr("Best: "));
}

TEST(SweepReport, NothingWasSavedWhereNoPointHasFinished) {
  SweepReport report = HalvedSweep();
  for (PointResult& point : report.result.ranking) point.accuracy.reset();
  EXPECT_THAT(SweepWords(report), ElementsAre("No point has finished."));
}

TEST(SweepReport, WhatIsUnderWayHasThePointsThatAreMade) {
  SweepReport report = HalvedSweep();
  const RungRuns first = {{0, 1, 2, 3}, {}};
  std::vector<std::optional<proto::RunRecord>> records(4);
  records[1] = MakeRecord({.accuracy = 0.3, .samples = 1000, .trained_s = 12.5});
  records[3] = MakeRecord({.accuracy = 0.5, .samples = 1000, .trained_s = 12.5});
  report.result = RankResults(report.plan, {MadeOf(first.points, records)});
  report.under_way = "2 of 4 runs of rung 1 of 3 are made";
  EXPECT_THAT(SweepWords(report), ElementsAre(HasSubstr("Best so far: ")));
  EXPECT_THAT(SweepWords(report)[0], HasSubstr("momentum=0.9 with 50.00 %"));
  const auto json = nlohmann::json::parse(SweepJson(report));
  EXPECT_EQ(json["under_way"], "2 of 4 runs of rung 1 of 3 are made");
  EXPECT_EQ(json["points"].size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(SweepJson(HalvedSweep()))["under_way"], "");
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

using ::testing::DoubleNear;

ValueAxis AxisWith(const std::vector<std::string>& values) {
  proto::Variation variation;
  for (const std::string& value : values) variation.add_values(value);
  return MakeAxis(variation);
}

TEST(ValueAxis, IsLogarithmicFromADecadeOn) {
  const ValueAxis axis = AxisWith({"0.01", "0.1", "0.03"});
  EXPECT_EQ(axis.kind, ValueAxis::Kind::kLogarithmic);
  EXPECT_THAT(axis.positions, ElementsAre(DoubleNear(-2, 1e-12), DoubleNear(-1, 1e-12),
                                          DoubleNear(-1.5228787, 1e-6)));
  EXPECT_NEAR(axis.low, -2.05, 1e-12);
  EXPECT_NEAR(axis.high, -0.95, 1e-12);
  EXPECT_EQ(AxisWith({"1e-4", "0.5"}).kind, ValueAxis::Kind::kLogarithmic);
}

TEST(ValueAxis, IsLinearBelowADecadeAndWhereAValueIsNotAbove0) {
  EXPECT_THAT(AxisWith({"2", "16"}).positions, ElementsAre(2, 16));
  EXPECT_EQ(AxisWith({"2", "16"}).kind, ValueAxis::Kind::kLinear);
  EXPECT_EQ(AxisWith({"0", "0.5", "0.9"}).kind, ValueAxis::Kind::kLinear);
  EXPECT_EQ(AxisWith({"0", "1000"}).kind, ValueAxis::Kind::kLinear);
  EXPECT_EQ(AxisWith({"-100", "-1"}).kind, ValueAxis::Kind::kLinear);
}

TEST(ValueAxis, NamesStandSideBySide) {
  const ValueAxis axis = AxisWith({"FP16", "1", "NONE"});
  EXPECT_EQ(axis.kind, ValueAxis::Kind::kNames);
  EXPECT_THAT(axis.positions, ElementsAre(0, 1, 2));
  EXPECT_EQ(AxisWith({"nan", "1"}).kind, ValueAxis::Kind::kNames);
}

TEST(ValueAxis, OneValueHasRoomAround) {
  const ValueAxis axis = AxisWith({"5"});
  EXPECT_THAT(axis.positions, ElementsAre(5));
  EXPECT_EQ(axis.low, 4);
  EXPECT_EQ(axis.high, 6);
}

}  // namespace

}  // namespace strata::compare

#include "compare/campaign/campaign_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/campaign/campaign_fixture.h"

namespace strata::compare {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Why(const CampaignRequest& request) {
  const auto campaign = PlanCampaign(request);
  const absl::Status status = campaign.ok() ? PlanRuns(*campaign).status() : campaign.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string Why(const std::string& modes, const std::string& more = "") {
  return Why(MakeRequest(modes, 1, more));
}

TEST(CampaignPlan, RunsGoSeedBySeed) {
  std::vector<std::string> order;
  for (const RunPlan& run : ListRuns(CampaignIn("sync,async,ring", 2, "seed: 7"))) {
    order.push_back(run.mode + " " + std::to_string(run.job.seed()));
  }
  EXPECT_THAT(order, ElementsAre("sync 7", "async 7", "ring 7", "sync 8", "async 8", "ring 8"));
}

TEST(CampaignPlan, ModesDifferInNothingButWhatTheirNamesStandFor) {
  std::vector<RunPlan> runs =
      ListRuns(CampaignIn("sync,ring,lazy:ssp(3)+push.codec=FP16", 1, "consistency { async {} }"));
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_TRUE(runs[0].job.consistency().has_sync());
  EXPECT_EQ(runs[1].job.exchange(), proto::Job::RING);
  EXPECT_EQ(runs[2].job.consistency().lazy().staleness(), 3u);
  EXPECT_EQ(runs[2].job.push().codec(), proto::Encoding::FP16);
  runs[1].job.set_exchange(proto::Job::PARAMETER_SERVER);
  runs[2].job.clear_push();
  for (RunPlan& run : runs) {
    run.job.mutable_consistency()->mutable_sync();
    EXPECT_EQ(JobToText(run.job), JobToText(runs[0].job)) << run.mode;
  }
}

TEST(CampaignPlan, AccuracyIsMeasuredAbout25TimesWithoutAPause) {
  for (const RunPlan& run : ListRuns(CampaignIn("sync,async"))) {
    EXPECT_EQ(run.job.evaluation().every_steps(), 4u);  // 100 / 25
    EXPECT_EQ(run.job.evaluation().every_epochs(), 0u);
    EXPECT_TRUE(run.job.evaluation().deferred());
    EXPECT_EQ(run.job.metrics().every_steps(), 4u);
  }
  EXPECT_EQ(MeasureEvery(10, 1), 1u);
  EXPECT_EQ(MeasureEvery(1000, 1), 40u);
}

TEST(CampaignPlan, ASettingThatNoProgramReadsIsRefusedInAMode) {
  CampaignRequest request = MakeRequest("sync,sync+schedule.base_lr=0.00001");
  request.job = *ParseJob(
      "name: 's' ranks: 2 program { path: '/a/train.py' } optimizer { from_program {} }", "job");
  EXPECT_EQ(Why(request),
            "mode sync+schedule.base_lr=0.00001: schedule.base_lr: the script has an optimizer of "
            "its own: set it in the program, and to vary it give the program an argument: "
            "program.args=--NAME=V1,--NAME=V2");
  request.modes = "sync,sync+program.args=--lr=0.1";
  EXPECT_TRUE(PlanCampaign(request).ok());
}

TEST(CampaignPlan, MeasurementsFollowTheLongestLocalStepsWhere8OfThemAreLeft) {
  for (const RunPlan& run : ListRuns(CampaignIn("sync,lazy:local(3),lazy:diloco(10)"))) {
    EXPECT_EQ(run.job.evaluation().every_steps(), 10u) << run.mode;
  }
  for (const RunPlan& run : ListRuns(CampaignIn("sync,lazy:diloco(16)"))) {
    EXPECT_EQ(run.job.evaluation().every_steps(), 4u) << run.mode;  // 100 / 16 = 6
  }
  EXPECT_EQ(MeasureEvery(1000, 16), 48u);
  EXPECT_EQ(MeasureEvery(128, 16), 16u);
  EXPECT_EQ(MeasureEvery(127, 16), 5u);
}

TEST(CampaignPlan, WhatTheJobSaysOfMeasuringHolds) {
  const auto runs = ListRuns(
      CampaignIn("sync,async", 1, "evaluation { every_epochs: 2 } metrics { every_steps: 7 }"));
  for (const RunPlan& run : runs) {
    EXPECT_EQ(run.job.evaluation().every_epochs(), 2u);
    EXPECT_EQ(run.job.evaluation().every_steps(), 0u);
    EXPECT_TRUE(run.job.evaluation().deferred());
    EXPECT_EQ(run.job.metrics().every_steps(), 7u);
  }
}

TEST(CampaignPlan, StepsOfDataThatIsNotHereMustBeGiven) {
  CampaignRequest request = MakeRequest("sync");
  request.job.mutable_data()->mutable_idx()->set_dir("/nowhere");
  EXPECT_THAT(Why(request), HasSubstr("mode sync: /nowhere/train-labels-idx1-ubyte"));
  EXPECT_THAT(Why(request), HasSubstr("max_steps or data.limit_train has to be set"));
  request.job.mutable_data()->set_limit_train(640);  // 10 steps an epoch
  EXPECT_EQ(ListRuns(*PlanCampaign(request))[0].job.evaluation().every_steps(), 1u);
  request.job.mutable_data()->clear_limit_train();
  request.job.set_max_steps(500);
  EXPECT_EQ(ListRuns(*PlanCampaign(request))[0].job.evaluation().every_steps(), 20u);
}

TEST(CampaignPlan, WhatCannotBeComparedIsRefusedByMode) {
  EXPECT_EQ(Why("ssp(3),lazy:ssp(3)"), "mode lazy:ssp(3): is the same job as mode ssp(3)");
  EXPECT_EQ(Why("sync,sync+window=4"), "mode sync+window=4: is the same job as mode sync");
  EXPECT_EQ(Why("sync,async+epochs=3"),
            "mode async+epochs=3: trains on 9600 samples, mode sync on 6400");
  EXPECT_EQ(Why("sync,async+seed=3"), "mode async+seed=3: seed: all modes have the same ones");
  EXPECT_THAT(Why("sync,async+windw=3"), HasSubstr("mode async+windw=3: setting \"windw=3\": Job"));
  EXPECT_THAT(Why("sync,async+window=1"), HasSubstr("mode async+window=1: window: 1 is not in"));
  EXPECT_THAT(Why("sync,ring+pull.codec=FP16"), HasSubstr("mode ring+pull.codec=FP16: pull"));
  EXPECT_THAT(Why("sync", "exchange: MPI"), HasSubstr("mode sync: exchange: MPI: only"));
  EXPECT_THAT(Why("sync", "run_dir: 'x'"), HasSubstr("run_dir: x: "));
  EXPECT_THAT(Why("sync,sync+name=\"a!\""), HasSubstr("mode sync+name=\"a!\": name"));
  EXPECT_EQ(Why("sync+window=(5),sync+window=5"),
            "mode sync+window=(5): setting \"window=(5)\": Expected integer, got: (");
  CampaignRequest none = MakeRequest("sync", 0);
  EXPECT_THAT(Why(none), HasSubstr("seeds: 0"));
}

TEST(CampaignPlan, AProgramHasTheSeedsOfItsRunsAndMeasuresWhenItLikes) {
  CampaignRequest request = MakeRequest("sync,async", 2);
  request.job.clear_data();
  request.job.mutable_program()->set_path("x");
  const auto campaign = PlanCampaign(request);
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const auto runs = PlanRuns(*campaign);
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 4u);
  const uint64_t first = runs->front().job.seed();
  EXPECT_EQ(runs->back().job.seed(), first + 1);
  EXPECT_EQ(runs->back().job.evaluation().every_steps(), 0u);
  EXPECT_TRUE(runs->back().job.has_program());
}

TEST(CampaignPlan, ModesOfOneFileNameAreRefused) {
  EXPECT_EQ(Why("sync+name=\"a\",sync+name=\"a_\""),
            "mode sync+name=\"a_\": would have the file of mode sync+name=\"a\"");
}

std::vector<std::string> Names(const std::string& text) {
  const auto modes = ParseModes(text);
  EXPECT_TRUE(modes.ok()) << modes.status();
  std::vector<std::string> names;
  if (!modes.ok()) return names;
  for (const Mode& mode : *modes) names.push_back(mode.name);
  return names;
}

// The reason why a list is refused.
std::string ModeListWhy(const std::string& text) {
  const absl::Status status = ParseModes(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos);
  return std::string(status.message());
}

TEST(ModeList, CommasSeparateModesUnlessInBrackets) {
  EXPECT_THAT(Names("sync, lazy:ssp(3),lazy:diloco(16),async,async_damped,async_dc,ring"),
              ElementsAre("sync", "lazy:ssp(3)", "lazy:diloco(16)", "async", "async_damped",
                          "async_dc", "ring"));
  EXPECT_THAT(Names("sync+trace={steps: 1, first_step: 2},async"),
              ElementsAre("sync+trace={steps: 1, first_step: 2}", "async"));
}

TEST(ModeList, SettingsComeAfterThoseOfTheModesName) {
  const auto mode = ParseMode("delay1+push.codec=FP16+schedule.base_lr=1e+2");
  ASSERT_TRUE(mode.ok()) << mode.status();
  EXPECT_THAT(mode->settings, ElementsAre("consistency.lazy={double_buffering: true}",
                                          "push.codec=FP16", "schedule.base_lr=1e+2"));
}

TEST(ModeList, WhatIsNoModeIsRefusedByName) {
  EXPECT_THAT(ModeListWhy(""), HasSubstr("no mode to compare"));
  EXPECT_THAT(ModeListWhy("  "), HasSubstr("no mode to compare"));
  EXPECT_THAT(ModeListWhy("sync,,async"), HasSubstr("an empty mode between commas"));
  EXPECT_EQ(ModeListWhy("sync,async,sync"), "mode sync is there twice");
  EXPECT_THAT(ModeListWhy("sync,bulk"), HasSubstr("mode bulk: \"bulk\" is not one of sync, "));
  EXPECT_THAT(ModeListWhy("sync,ssp(x)"),
              HasSubstr("mode ssp(x): \"ssp(x)\" is not NAME or NAME(NUMBER)"));
  EXPECT_THAT(ModeListWhy("sync,lazy:ssp(3"), HasSubstr("mode lazy:ssp(3: "));
  EXPECT_THAT(ModeListWhy("async:ssp(3)"), HasSubstr("ssp(3) is lazy"));
  EXPECT_EQ(ModeListWhy("sync+window"), "mode sync+window: \"+window\" is not +FIELD=VALUE");
  EXPECT_EQ(ModeListWhy("sync+"), "mode sync+: \"+\" is not +FIELD=VALUE");
}

TEST(ModeList, FileNamesNeedNoQuotes) {
  EXPECT_EQ(ModeFileName("sync"), "sync");
  EXPECT_EQ(ModeFileName("lazy:diloco(16)"), "lazy_diloco_16");
  EXPECT_EQ(ModeFileName("async_dc"), "async_dc");
  EXPECT_EQ(ModeFileName("delay1+push.codec=FP16"), "delay1_push.codec_FP16");
  EXPECT_EQ(ModeFileName("sync+name=\"../x\""), "sync_name_.._x");
}

}  // namespace

}  // namespace strata::compare

#include "compare/campaign/tuning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compare/campaign/campaign_fixture.h"
#include "compare/campaign/sample_sweep.h"
#include "compare/campaign/sweep_plan.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<proto::Campaign> CampaignWith(const std::string& modes,
                                             const std::vector<std::string>& tune,
                                             const std::string& more = "seed: 7") {
  auto campaign = PlanCampaign({.job = TinyJob(more), .modes = modes, .seeds = 3});
  if (!campaign.ok()) return campaign.status();
  const auto variations = ParseVariations(tune);
  EXPECT_TRUE(variations.ok()) << variations.status();
  for (const proto::Variation& variation : *variations) *campaign->add_tune() = variation;
  return campaign;
}

std::string TuningRefusal(const std::string& modes, const std::vector<std::string>& tune,
                          const std::string& more = "seed: 7") {
  const auto campaign = CampaignWith(modes, tune, more);
  EXPECT_TRUE(campaign.ok()) << campaign.status();
  return std::string(TuningRuns(*campaign).status().message());
}

proto::RunRecord RunTuningWith(double accuracy) {
  return MakeRecord({.accuracy = accuracy, .seed = 6});
}

TEST(Tuning, EachModeGetsTheSamePointsWithTheSeedBeforeTheFirst) {
  const auto campaign = CampaignWith("sync,async", {"schedule.base_lr=0.1,0.2"});
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const auto runs = TuningRuns(*campaign);
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::vector<std::string> names;
  for (const RunPlan& run : *runs) {
    names.push_back(run.mode);
    EXPECT_EQ(run.job.seed(), 6u);
    EXPECT_EQ(run.job.evaluation().every_steps(), 100u);
  }
  EXPECT_THAT(names, ElementsAre("sync+schedule.base_lr=0.1", "sync+schedule.base_lr=0.2",
                                 "async+schedule.base_lr=0.1", "async+schedule.base_lr=0.2"));
  EXPECT_FLOAT_EQ((*runs)[3].job.schedule().base_lr(), 0.2f);
}

TEST(Tuning, BeforeSeed1ThereIsASeedThatNoComparisonReaches) {
  for (const char* more : {"", "seed: 1"}) {
    auto campaign = CampaignWith("sync", {"schedule.base_lr=0.1,0.2"}, more);
    ASSERT_TRUE(campaign.ok()) << campaign.status();
    campaign->set_seeds(kSeedsMax);
    const auto runs = TuningRuns(*campaign);
    ASSERT_TRUE(runs.ok()) << runs.status();
    EXPECT_EQ((*runs)[0].job.seed(), 1u + kSeedsMax);
    EXPECT_EQ(PlanRuns(*campaign)->back().job.seed(), uint64_t{kSeedsMax});
  }
}

TEST(Tuning, EachModeRunsWithItsBestPoint) {
  const auto campaign = CampaignWith("sync,async,ring", {"schedule.base_lr=0.1,0.2,0.4"});
  ASSERT_TRUE(campaign.ok()) << campaign.status();
  const Tuned tuned =
      TunedBy(*campaign, {RunTuningWith(0.5), RunTuningWith(0.7), RunTuningWith(0.7),
                          RunTuningWith(0.6), RunTuningWith(0.4), RunTuningWith(0.2),
                          RunTuningWith(-1), RunTuningWith(-1), RunTuningWith(-1)});
  EXPECT_THAT(tuned.campaign.modes(),
              ElementsAre("sync+schedule.base_lr=0.2", "async+schedule.base_lr=0.1",
                          "ring+schedule.base_lr=0.1"));
  EXPECT_EQ(tuned.campaign.seeds(), 3u);
  EXPECT_THAT(tuned.words, HasSubstr("the same 3 points with seed 6"));
  EXPECT_THAT(tuned.words, HasSubstr("sync schedule.base_lr=0.2 (70.00 %); async "
                                     "schedule.base_lr=0.1 (60.00 %); ring schedule.base_lr=0.1 "
                                     "(no point has finished)"));
  EXPECT_THAT(tuned.words, HasSubstr("9 runs and 18.0 s of training"));
  const auto plans = PlanRuns(tuned.campaign);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ(plans->size(), 9u);
  EXPECT_FLOAT_EQ((*plans)[0].job.schedule().base_lr(), 0.2f);
  EXPECT_EQ((*plans)[0].job.seed(), 7u);
}

TEST(Tuning, WhatWouldBeUnfairOrCannotBeIsRefused) {
  EXPECT_THAT(TuningRefusal("sync", {"epochs=1,2"}), HasSubstr("trains on"));
  EXPECT_THAT(TuningRefusal("sync", {"schedule.lr=1"}), HasSubstr("has no field named \"lr\""));
}

}  // namespace
}  // namespace strata::compare

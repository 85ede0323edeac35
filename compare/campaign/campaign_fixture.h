#ifndef STRATA_COMPARE_CAMPAIGN_CAMPAIGN_FIXTURE_H_
#define STRATA_COMPARE_CAMPAIGN_CAMPAIGN_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/job/job.h"
#include "compare/campaign/campaign_plan.h"

namespace strata::compare {

// Returns a job of 4 ranks of 16 samples, with 3,200 samples: 50 steps an epoch, 100 in all.
inline proto::Job TinyJob(const std::string& more = "") {
  const auto job = ParseJob(R"(
      name: "tiny" model { zoo: "mlp" }
      data { synthetic { train_samples: 3200 test_samples: 64 } batch_per_rank: 16 }
      ranks: 4 epochs: 2 )" + more,
                            "tiny.textproto");
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? *job : proto::Job();
}

inline CampaignRequest MakeRequest(const std::string& modes, uint32_t seeds = 1,
                                   const std::string& more = "") {
  return {.job = TinyJob(more),
          .modes = modes,
          .seeds = seeds,
          .cluster = "2 nodes",
          .version = "strata 1"};
}

inline proto::Campaign CampaignIn(const std::string& modes, uint32_t seeds = 1,
                                  const std::string& more = "") {
  const auto campaign = PlanCampaign(MakeRequest(modes, seeds, more));
  EXPECT_TRUE(campaign.ok()) << campaign.status();
  return campaign.ok() ? *campaign : proto::Campaign();
}

inline std::vector<RunPlan> ListRuns(const proto::Campaign& campaign) {
  const auto runs = PlanRuns(campaign);
  EXPECT_TRUE(runs.ok()) << runs.status();
  return runs.ok() ? *runs : std::vector<RunPlan>();
}

// A directory for the test case, removed at its end; not created at first.
class CampaignTest : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = ::testing::TempDir() + "/campaign." +
           ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string dir_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_CAMPAIGN_FIXTURE_H_

#include "compare/campaign/campaign_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "compare/campaign/campaign_fixture.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CampaignFolderTest : public CampaignTest {
 protected:
  std::unique_ptr<CampaignFolder> Open(const proto::Campaign& asked) {
    auto folder = CampaignFolder::Open(dir_, asked);
    EXPECT_TRUE(folder.ok()) << folder.status();
    if (!folder.ok()) return nullptr;
    EXPECT_EQ((*folder)->Begin(), absl::OkStatus());
    return *std::move(folder);
  }
  absl::Status Refused(const proto::Campaign& asked) {
    return CampaignFolder::Open(dir_, asked).status();
  }
  static proto::RunRecord MakeRecord(const RunPlan& plan) {
    proto::RunRecord record;
    record.set_mode(plan.mode);
    record.set_seed(plan.job.seed());
    *record.mutable_job() = plan.job;
    record.set_trained_s(1.0 / 3);
    record.add_staleness(uint64_t{1} << 60);
    record.add_windows()->set_loss(0.1);
    return record;
  }
};

TEST_F(CampaignFolderTest, ARecordComesBackAsItWasSaved) {
  const proto::Campaign campaign = CampaignIn("lazy:ssp(3)", 1, "schedule { base_lr: 0.1 }");
  const auto folder = Open(campaign);
  const RunPlan plan = ListRuns(campaign)[0];
  EXPECT_EQ(*folder->Load(plan), std::nullopt);
  EXPECT_EQ(*folder->CountFinished({plan}), 0u);
  ASSERT_EQ(folder->Save(MakeRecord(plan)), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/runs/lazy_ssp_3-seed1.json"));
  const auto loaded = folder->Load(plan);
  ASSERT_TRUE(loaded.ok() && loaded->has_value()) << loaded.status();
  EXPECT_EQ(*folder->CountFinished({plan}), 1u);
  EXPECT_EQ((*loaded)->SerializeAsString(), MakeRecord(plan).SerializeAsString());
}

TEST_F(CampaignFolderTest, OnlyCheckpointsInItsOwnFolderAreDeleted) {
  const auto folder = Open(CampaignIn("sync"));
  const std::string own = dir_ + "/checkpoints";
  std::filesystem::create_directories(own + "/a-1");
  std::filesystem::create_directories(own + "/a-2");
  std::filesystem::create_directories(own + "/deep/er");
  std::filesystem::create_directories(dir_ + "/kept");
  proto::RunRecord record;
  for (const std::string& dir : {own + "/a-1", own + "/gone", own + "/..", own + "/deep/er", own,
                                 dir_ + "/kept", std::string()}) {
    record.set_checkpoint_dir(dir);
    EXPECT_EQ(folder->DeleteCheckpoints(record), absl::OkStatus()) << dir;
  }
  EXPECT_FALSE(std::filesystem::exists(own + "/a-1"));
  EXPECT_TRUE(std::filesystem::exists(own + "/a-2"));
  EXPECT_TRUE(std::filesystem::exists(own + "/deep/er"));
  EXPECT_EQ(folder->DeleteAllCheckpoints(), absl::OkStatus());
  EXPECT_FALSE(std::filesystem::exists(own));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/kept"));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/runs"));
}

TEST_F(CampaignFolderTest, ARunThatFailedFromOutsideIsNotThere) {
  const proto::Campaign campaign = CampaignIn("sync");
  const auto folder = Open(campaign);
  const RunPlan plan = ListRuns(campaign)[0];
  proto::RunRecord record = MakeRecord(plan);
  record.set_failure("rank 1: ValueError: loss is NaN at step 3");
  for (const bool diverged : {false, true}) {
    record.set_has_diverged(diverged);
    ASSERT_EQ(folder->Save(record), absl::OkStatus());
    EXPECT_EQ((*folder->Load(plan)).has_value(), diverged);
    EXPECT_EQ(*folder->CountFinished({plan}), diverged ? 1u : 0u);
  }
}

TEST(RunsOfUse, AreThoseThatHaveFinishedOrDiverged) {
  std::vector<proto::RunRecord> runs(2);
  EXPECT_EQ(WhyNoneIsOfUse({}), "");
  EXPECT_EQ(WhyNoneIsOfUse(runs), "");
  runs[0].set_failure("rank 1: killed by signal 9");
  EXPECT_EQ(WhyNoneIsOfUse(runs), "");
  runs[1].set_failure("rank 0: loss is NaN at step 3");
  runs[1].set_has_diverged(true);
  EXPECT_EQ(WhyNoneIsOfUse(runs), "");
  runs[1].set_has_diverged(false);
  EXPECT_EQ(WhyNoneIsOfUse(runs), "rank 1: killed by signal 9");
}

TEST_F(CampaignFolderTest, TheSameCampaignGoesOnAndMoreModesAndSeedsAddToIt) {
  Open(CampaignIn("sync,lazy:diloco(10)", 2));
  EXPECT_EQ(Open(CampaignIn("sync,lazy:diloco(10)", 2))->campaign().modes_size(), 2);
  const auto more = Open(CampaignIn("sync,async,lazy:diloco(12)", 3));
  EXPECT_THAT(more->campaign().modes(),
              ElementsAre("sync", "lazy:diloco(10)", "async", "lazy:diloco(12)"));
  EXPECT_EQ(more->campaign().seeds(), 3u);
  // As often as before, or the runs that are there could not be compared.
  EXPECT_EQ(more->campaign().measured_round(), 10u);
  EXPECT_EQ(ListRuns(more->campaign()).back().job.evaluation().every_steps(), 10u);
}

TEST_F(CampaignFolderTest, FewerModesAndSeedsTakeNothingAway) {
  Open(CampaignIn("sync,async", 3));
  const auto fewer = Open(CampaignIn("async", 1));
  EXPECT_THAT(fewer->campaign().modes(), ElementsAre("sync", "async"));
  EXPECT_EQ(fewer->campaign().seeds(), 3u);
}

TEST_F(CampaignFolderTest, AnotherCampaignIsRefusedWithTheFirstDifference) {
  Open(CampaignIn("sync"));
  const auto why = [this](const proto::Campaign& asked) {
    const absl::Status status = Refused(asked);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir_ + ": holds another campaign"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    return std::string(status.message());
  };
  EXPECT_THAT(why(CampaignIn("sync", 1, "seed: 2")), HasSubstr("modified: job.seed: 1 -> 2"));
  EXPECT_THAT(why(CampaignIn("sync", 1, "debug { delays { node: 1 delay_ms: 5 } }")),
              HasSubstr("added: job.debug"));
  proto::Campaign other = CampaignIn("sync");
  other.set_cluster("3 nodes");
  EXPECT_THAT(why(other), HasSubstr("modified: cluster: \"2 nodes\" -> \"3 nodes\""));
  other = CampaignIn("sync");
  other.set_version("strata 2");
  EXPECT_THAT(why(other), HasSubstr("modified: version"));
  other = CampaignIn("sync");
  other.clear_modes();
  other.mutable_sweep()->add_vary()->set_field("schedule.base_lr");
  EXPECT_EQ(Refused(other).message(), dir_ + ": holds a comparison, not a sweep");
  // Defaults are no difference, nor is the mode of the job's file.
  EXPECT_EQ(Refused(CampaignIn("sync", 1, "seed: 1 window: 4 consistency { async {} }")),
            absl::OkStatus());
}

TEST_F(CampaignFolderTest, AStrangersDirectoryIsLeftAsItWas) {
  std::filesystem::create_directories(dir_);
  std::ofstream(dir_ + "/notes.txt") << "mine";
  const absl::Status status = Refused(CampaignIn("sync"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("holds files that are not of a comparison"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/.lock"));
  std::filesystem::remove(dir_ + "/notes.txt");
  EXPECT_EQ(Refused(CampaignIn("sync")), absl::OkStatus());
}

TEST_F(CampaignFolderTest, TwoDoNotShareADirectory) {
  auto first = Open(CampaignIn("sync"));
  const absl::Status status = Refused(CampaignIn("sync"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("another comparison or sweep writes there now"));
  first.reset();
  EXPECT_EQ(Refused(CampaignIn("sync")), absl::OkStatus());
}

TEST_F(CampaignFolderTest, DamagedFilesAreNamed) {
  const proto::Campaign campaign = CampaignIn("sync,async");
  const std::vector<RunPlan> plans = ListRuns(campaign);
  {
    const auto folder = Open(campaign);
    ASSERT_EQ(folder->Save(MakeRecord(plans[0])), absl::OkStatus());
    std::filesystem::rename(dir_ + "/runs/sync-seed1.json", dir_ + "/runs/async-seed1.json");
    EXPECT_THAT(std::string(folder->Load(plans[1]).status().message()),
                HasSubstr("async-seed1.json: is of another run"));
    std::ofstream(dir_ + "/runs/sync-seed1.json") << "{\"mode\": ";
    const absl::Status status = folder->Load(plans[0]).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("sync-seed1.json: is damaged"));
  }
  std::ofstream(dir_ + "/campaign.json") << "none";
  EXPECT_THAT(std::string(Refused(campaign).message()), HasSubstr("campaign.json: is damaged"));
}

TEST_F(CampaignFolderTest, ASweepMayVaryMoreButIsNoComparison) {
  proto::Campaign sweep = CampaignIn("sync");
  sweep.clear_modes();
  sweep.mutable_sweep()->add_vary()->set_field("schedule.base_lr");
  {
    auto folder = CampaignFolder::Open(dir_, sweep);
    ASSERT_TRUE(folder.ok()) << folder.status();
    ASSERT_EQ((*folder)->Begin(), absl::OkStatus());
  }
  sweep.mutable_sweep()->set_halving(2);
  sweep.mutable_sweep()->mutable_vary(0)->set_field("ranks");
  {
    auto folder = CampaignFolder::Open(dir_, sweep);
    ASSERT_TRUE(folder.ok()) << folder.status();
    EXPECT_EQ((*folder)->campaign().sweep().halving(), 2u);
    EXPECT_EQ((*folder)->campaign().sweep().vary(0).field(), "ranks");
  }
  const absl::Status status = CampaignFolder::Open(dir_, CampaignIn("sync")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), dir_ + ": holds a sweep, not a comparison");
}

}  // namespace
}  // namespace strata::compare

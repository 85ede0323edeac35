#include "server/coordinator/checkpoints/checkpoint_work.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/file_store.h"
#include "common/checkpoint/open_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// A folder with the checkpoints of the steps 10, 20 and 30 of job 7; that of 30 has a manifest that
// is cut short.
class FindTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(dir_);
    auto store = FileStore::Open(dir_);
    ASSERT_TRUE(store.ok()) << store.status();
    proto::JobRecord record;
    record.set_job_id(7);
    record.set_cluster(5);
    for (const uint64_t clock : {10, 20, 30}) {
      Manifest manifest;
      manifest.job = 7;
      manifest.job_name = "made";
      manifest.clock = clock;
      manifest.record = record.SerializeAsString();
      ASSERT_TRUE(Checkpoints(**store).Complete(manifest).ok());
    }
    fs::resize_file(absl::StrCat(dir_, "/", Checkpoints::ObjectName(30, "manifest.json")), 20);
  }
  absl::StatusOr<CheckpointFound> Find(const CheckpointQuery& query) const {
    return FindCheckpoint(query, [](const std::string& dir) { return OpenStoreThatIsThere(dir, {}); });
  }
  std::vector<uint64_t> Clocks() const {
    const auto listing = Checkpoints(**FileStore::Open(dir_)).List();
    return {listing->clocks.begin(), listing->clocks.end()};
  }

  const std::string dir_ = testing::TempDir() + "/find_checkpoint";
};

TEST_F(FindTest, ABrokenOneIsPassedOverAndLeftWhereTheJobWritesElsewhere) {
  const auto found = Find({.job = 8, .cluster = 5, .resume_dir = dir_});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.clock, 20u);
  EXPECT_EQ(found->record.job_id(), 7u);
  EXPECT_THAT(found->passed_over, ElementsAre(HasSubstr("manifest.json")));
  EXPECT_THAT(Clocks(), ElementsAre(10, 20, 30));
}

TEST_F(FindTest, WhatTheJobWillMakeAnewIsDeletedFromItsOwnFolder) {
  const auto found =
      Find({.job = 8, .cluster = 5, .own_dir = dir_, .resume_dir = dir_, .below = 20});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.clock, 10u);
  EXPECT_THAT(Clocks(), ElementsAre(10));
}

TEST_F(FindTest, AJobThatCannotGoOnLeavesAllAsItIsAndOneThatBeginsAnewMakesRoom) {
  CheckpointQuery query = {
      .job = 8, .cluster = 5, .own_dir = dir_, .resume_dir = dir_, .below = 10};
  EXPECT_EQ(Find(query).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Clocks(), ElementsAre(10, 20, 30));
  query.or_begin = true;
  const auto none = Find(query);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()),
              StartsWith(absl::StrCat("no complete checkpoint in ", dir_, " of a step before 10")));
  EXPECT_THAT(Clocks(), IsEmpty());
}

TEST_F(FindTest, AnotherJobsFolderIsRefusedAndOneThatIsMissingIsNotMade) {
  const auto taken = Find({.job = 8, .cluster = 5, .own_dir = dir_});
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(taken.status().message()), HasSubstr("has checkpoints of job 7 (made):"));
  EXPECT_TRUE(Find({.job = 7, .cluster = 5, .own_dir = dir_}).ok());
  EXPECT_THAT(std::string(Find({.job = 7, .cluster = 6, .own_dir = dir_}).status().message()),
              HasSubstr("has checkpoints of job 7 (made) of another cluster:"));
  const std::string missing = dir_ + ".missing";
  EXPECT_TRUE(Find({.job = 8, .cluster = 5, .own_dir = missing}).ok());
  EXPECT_EQ(Find({.job = 8, .cluster = 5, .resume_dir = missing}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(fs::exists(missing));
}

}  // namespace
}  // namespace strata::server

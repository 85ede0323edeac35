#include "worker/agent/runs/run_folders.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/unique_fd.h"
#include "proto/record.pb.h"
#include "worker/agent/runs/run_directory.h"

namespace strata::worker {
namespace {

class RunFoldersTest : public ::testing::Test {
 protected:
  RunFoldersTest() { std::filesystem::create_directories(runs_); }

  // As a node of the job prepares it.
  std::string Prepare(uint32_t job, const std::string& name) {
    proto::JobRecord record;
    record.set_job_id(job);
    record.mutable_job()->set_name("j");
    record.mutable_job()->set_run_dir(name);
    const std::string run_dir = ChooseRunDirectory(record, runs_);
    EXPECT_TRUE(PrepareRunDirectory(run_dir, record, 0, /*holds_rank_0=*/true).ok());
    return run_dir;
  }

  const std::string runs_ =
      std::filesystem::path(::testing::TempDir() + "/folders/runs").lexically_normal().string();
};

TEST_F(RunFoldersTest, AJobsFolderIsFoundOnceItsNodeHasPreparedIt) {
  RunFolders folders(runs_);
  EXPECT_TRUE(absl::IsNotFound(folders.Find(4, "").status()));
  const std::string run_dir = runs_ + "/one";
  folders.OnBegun(4, run_dir);
  EXPECT_TRUE(folders.IsRunning(4));
  EXPECT_TRUE(absl::IsNotFound(folders.Find(4, "").status()));
  EXPECT_EQ(Prepare(4, "one"), run_dir);
  EXPECT_EQ(*folders.Find(4, ""), run_dir);
  folders.OnGone(4);
  EXPECT_FALSE(folders.IsRunning(4));
  // Where this daemon saw it, and not where the coordinator says.
  EXPECT_EQ(*folders.Find(4, "/etc"), run_dir);
}

TEST_F(RunFoldersTest, AJobOfBeforeIsFoundByItsRecord) {
  const std::string run_dir = Prepare(5, "two");
  EXPECT_EQ(*RunFolders(runs_).Find(5, run_dir), run_dir);
}

TEST_F(RunFoldersTest, AFolderThatAnotherJobHasHadSinceIsNotShown) {
  const std::string run_dir = Prepare(6, "three");
  RunFolders folders(runs_);
  folders.OnBegun(6, run_dir);
  Prepare(7, "three");
  const absl::Status status = folders.Find(6, "").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(), "run directory " + run_dir + " is now that of job 7");
}

TEST_F(RunFoldersTest, AFolderThatAnEarlierJobStillHasMayYetBecomeTheJobs) {
  const std::string run_dir = Prepare(6, "four");
  RunFolders folders(runs_);
  folders.OnBegun(9, run_dir);
  EXPECT_TRUE(absl::IsNotFound(folders.Find(9, "").status()));
}

TEST_F(RunFoldersTest, WhatIsNotBelowTheRunsIsNotLookedAt) {
  const std::string outside = ::testing::TempDir() + "/folders/outside";
  std::filesystem::create_directories(outside);
  EXPECT_TRUE(absl::IsFailedPrecondition(RunFolders(runs_).Find(8, outside).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(RunFolders(runs_).Find(8, runs_ + "/../x").status()));
  // A link out of it is no better.
  std::filesystem::remove(runs_ + "/link");
  std::filesystem::create_directory_symlink(outside, runs_ + "/link");
  EXPECT_TRUE(absl::IsFailedPrecondition(RunFolders(runs_).Find(8, runs_ + "/link").status()));
}

TEST_F(RunFoldersTest, WhatIsRememberedIsBounded) {
  RunFolders folders(runs_);
  const std::string elsewhere = ::testing::TempDir() + "/elsewhere";
  folders.OnBegun(1, elsewhere);
  for (uint32_t job = 2; job <= RunFolders::kJobsMax + 2; ++job) {
    folders.OnBegun(job, elsewhere);
    folders.OnGone(job);
  }
  EXPECT_TRUE(folders.IsRunning(1)) << "it may still write";
  // Of what is remembered it is known that it is not below the runs.
  EXPECT_TRUE(absl::IsNotFound(folders.Find(2, "").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(folders.Find(RunFolders::kJobsMax + 2, "").status()));
}

}  // namespace
}  // namespace strata::worker

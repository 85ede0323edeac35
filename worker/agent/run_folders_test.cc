#include "worker/agent/run_folders.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "common/unique_fd.h"
#include "proto/record.pb.h"
#include "worker/agent/run_directory.h"
#include "worker/agent/user_logs.h"

namespace strata::worker {
namespace {

class RunFoldersTest : public ::testing::Test {
 protected:
  RunFoldersTest() { std::filesystem::create_directories(runs_); }

  // Prepares the directory as a node of the job does.
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
  // Where this daemon saw it, not where the coordinator says.
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
  // Remembered folders are known to be below the runs.
  EXPECT_TRUE(absl::IsNotFound(folders.Find(2, "").status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(folders.Find(RunFolders::kJobsMax + 2, "").status()));
}

class UserLogsTest : public ::testing::Test {
 protected:
  UserLogsTest() {
    std::filesystem::remove_all(runs_);
    std::filesystem::create_directories(runs_);
  }

  // A job of the user with a log of `bytes` bytes; the claim lasts as long as the job runs.
  UniqueFd Run(uint32_t job, const std::string& owner, size_t bytes, const std::string& name) {
    proto::JobRecord record;
    record.set_job_id(job);
    record.mutable_job()->set_run_dir(name);
    const std::string run_dir = ChooseRunDirectory(record, runs_);
    auto claim = PrepareRunDirectory(run_dir, record, 0, /*holds_rank_0=*/true);
    EXPECT_TRUE(claim.ok() && UserLogs::SetOwner(run_dir, owner).ok());
    EXPECT_TRUE(AppendLine(RankLog(run_dir, 0), std::string(bytes - 1, 'x')).ok());
    const auto began = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(run_dir + "/.lock", began + std::chrono::seconds(job));
    return *std::move(claim);
  }
  bool HasLog(const std::string& name) const {
    return std::filesystem::exists(RankLog(runs_ + "/" + name, 0));
  }

  const std::string runs_ =
      std::filesystem::path(::testing::TempDir() + "/user-logs/runs").lexically_normal().string();
};

TEST_F(UserLogsTest, TheOldestOfTheUsersJobsGiveWayToTheNewest) {
  UserLogs logs(runs_, 250);
  uint32_t job = 0;
  for (const char* name : {"a", "deep/b", "c"}) {
    Run(++job, "sam", 100, name);
    logs.OnEnded("sam", runs_ + "/" + name);
  }
  EXPECT_FALSE(HasLog("a"));
  EXPECT_TRUE(HasLog("deep/b"));
  EXPECT_TRUE(HasLog("c"));
  EXPECT_TRUE(std::filesystem::exists(runs_ + "/a/job.textproto")) << "only logs are removed";
  Run(4, "sam", 1000, "d");
  logs.OnEnded("sam", runs_ + "/d");
  EXPECT_FALSE(HasLog("deep/b"));
  EXPECT_FALSE(HasLog("c"));
  EXPECT_TRUE(HasLog("d")) << "the newest stays";
}

TEST_F(UserLogsTest, WhatIsThereBeforeTheWorkerBeginsCounts) {
  Run(1, "sam", 100, "a");
  Run(2, "sam", 100, "deep/b");
  Run(3, "sam", 100, "c");
  UserLogs(runs_, 250).OnEnded("sam", runs_ + "/c");
  EXPECT_FALSE(HasLog("a"));
  EXPECT_TRUE(HasLog("deep/b"));
}

TEST_F(UserLogsTest, LogsOfOthersAndOfJobsThatRunStay) {
  Run(1, "rex", 100, "rexs");
  Run(2, "", 100, "nobodys");
  const UniqueFd running = Run(3, "sam", 100, "runs");
  Run(4, "sam", 100, "ended");
  Run(5, "sam", 100, "newest");
  UserLogs(runs_, 150).OnEnded("sam", runs_ + "/newest");
  EXPECT_TRUE(HasLog("rexs"));
  EXPECT_TRUE(HasLog("nobodys"));
  EXPECT_TRUE(HasLog("runs"));
  EXPECT_FALSE(HasLog("ended"));
}

TEST_F(UserLogsTest, AFolderThatIsAnothersNowIsLeftAlone) {
  UserLogs logs(runs_, 150);
  Run(1, "sam", 100, "a");
  logs.OnEnded("sam", runs_ + "/a");
  Run(2, "rex", 100, "a");
  Run(3, "sam", 100, "b");
  logs.OnEnded("sam", runs_ + "/b");
  EXPECT_TRUE(HasLog("a"));
  EXPECT_TRUE(HasLog("b"));
}

}  // namespace
}  // namespace strata::worker

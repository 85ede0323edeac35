#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {
namespace {

proto::JobRecord Record(uint32_t job, uint64_t cluster = 0xabc) {
  proto::JobRecord record;
  record.set_job_id(job);
  record.set_cluster(cluster);
  record.set_token(1234567 + job);
  record.mutable_job()->set_name("lenet");
  return record;
}

std::string Directory() {
  std::string dir =
      testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(dir);
  return dir;
}

TEST(RunDirectoryLock, LogsOfAnotherJobAreGoneBeforeTheFolderIsTheJobs) {
  const std::string dir = Directory();
  std::filesystem::create_directories(dir + "/logs");
  const std::string log = dir + "/logs/rank4.log", aggregator = dir + "/logs/aggregator-node1.log";
  const auto write = [&] {
    std::ofstream{log} << "secret\n";
    std::ofstream{aggregator} << "secret\n";
    std::ofstream{dir + "/logs/notes.txt"} << "mine\n";
  };
  ASSERT_TRUE(LockRunDirectory(dir, Record(7)).ok());
  write();
  // Also for a later node, or a later attempt of the job.
  ASSERT_TRUE(LockRunDirectory(dir, Record(7)).ok());
  EXPECT_TRUE(std::filesystem::exists(log));
  ASSERT_TRUE(LockRunDirectory(dir, Record(8)).ok());
  EXPECT_FALSE(std::filesystem::exists(log));
  EXPECT_FALSE(std::filesystem::exists(aggregator));
  EXPECT_TRUE(std::filesystem::exists(dir + "/logs/notes.txt"));
}

TEST(RunDirectoryLock, LogsBehindALinkAreNotThoseOfTheJobBefore) {
  const std::string dir = Directory(), elsewhere = dir + "-elsewhere";
  std::filesystem::create_directories(elsewhere);
  std::ofstream{elsewhere + "/rank4.log"} << "of others\n";
  std::filesystem::create_directory_symlink(elsewhere, dir + "/logs");
  ASSERT_TRUE(LockRunDirectory(dir, Record(8)).ok());
  EXPECT_TRUE(std::filesystem::exists(elsewhere + "/rank4.log"));
}

TEST(RunDirectoryLock, IsSharedByTheNodesOfAJobAndRefusedToAnother) {
  const std::string dir = Directory();
  auto one = LockRunDirectory(dir, Record(7));
  ASSERT_TRUE(one.ok()) << one.status();
  auto two = LockRunDirectory(dir, Record(7));
  ASSERT_TRUE(two.ok()) << two.status();
  for (const proto::JobRecord& other : {Record(8), Record(7, 0xdef)}) {
    absl::Status status = LockRunDirectory(dir, other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(),
              "run directory " + dir + " is in use by job 7 \"lenet\" of cluster 0000000000000abc");
  }
  one->Reset();
  EXPECT_FALSE(LockRunDirectory(dir, Record(8)).ok());
  two->Reset();
  auto other = LockRunDirectory(dir, Record(8));
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(LockRunDirectory(dir, Record(7)).ok());
}

TEST(RunDirectoryLock, IsLetGoOfWhenItsProcessIsKilled) {
  const std::string dir = Directory();
  int held[2];
  ASSERT_EQ(pipe2(held, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto lock = LockRunDirectory(dir, Record(7));
    char byte = lock.ok() ? 'y' : 'n';
    if (write(held[1], &byte, 1) != 1) _exit(1);
    while (true) pause();
  }
  char byte = 0;
  EXPECT_EQ(read(held[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  EXPECT_FALSE(LockRunDirectory(dir, Record(8)).ok());
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(LockRunDirectory(dir, Record(8)).ok());
  close(held[0]);
  close(held[1]);
}

TEST(RunDirectoryLock, NamesTheFileThatCannotBeMade) {
  absl::Status status = LockRunDirectory("/nonexistent", Record(7)).status();
  EXPECT_EQ(status.message(), "cannot open /nonexistent/.lock: No such file or directory");
}

}  // namespace
}  // namespace strata::worker

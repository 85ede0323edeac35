// Checks that another user of this machine gets no access to a cluster with default settings.
#include "common/testing/other_user.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/unique_fd.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

bool MayRead(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)).valid();
}

class OtherUser : public testing::Test {
 protected:
  void SetUp() override {
    // Others may list the folder: its contents protect themselves.
    char base[] = "/tmp/other_user_test-XXXXXX";
    ASSERT_NE(mkdtemp(base), nullptr);
    base_ = base;
    ASSERT_EQ(chmod(base, 0755), 0);
    fs::create_directory(base_ + "/runtime");
    fs::permissions(base_ + "/runtime", fs::perms(0755));
    setenv("XDG_RUNTIME_DIR", (base_ + "/runtime").c_str(), 1);
    umask_ = umask(0);
    auto local = StartDaemon("local", {"local", "--slots", "2", "--runs", base_ + "/runs",
                                       "--state", base_ + "/state", "--log-level", "info"});
    ASSERT_TRUE(local.ok()) << local.status();
    local_ = *std::move(local);
  }
  void TearDown() override {
    if (local_.process != nullptr) {
      kill(local_.process->pid(), SIGTERM);
      EXPECT_TRUE(WaitUntil([&] { return local_.process->TryReap().has_value(); }));
      EXPECT_FALSE(fs::exists(socket())) << "its socket goes with it";
    }
    umask(umask_);
    unsetenv("XDG_RUNTIME_DIR");
    fs::remove_all(base_);
  }
  std::string socket() const { return base_ + "/runtime/strata/coordinator"; }

  std::string base_;
  mode_t umask_ = 0;
  Daemon local_;
};

TEST_F(OtherUser, ReadsNothingOfWhatALocalClusterLeaves) {
  EXPECT_EQ(ValueIn(local_.ready_line, "coordinator"), "unix:" + socket());
  // No command needs to be told its place.
  proto::Job job = LenetJob("quick", 2, 2, 4);
  const CommandResult submitted =
      RunStrata({"submit", WriteJob(TestDir(), job), "--follow", "--set",
                 "checkpoint={dir: \"" + base_ + "/checkpoints\" every_steps: 2}"});
  ASSERT_EQ(submitted.status.code, 0) << submitted.err;
  // The last checkpoint may become complete a moment after the job's end.
  ASSERT_TRUE(WaitUntil([&] {
    return absl::StrContains(RunStrata({"status", "1"}).out, "newest of step 4 ");
  }));
  std::vector<std::string> files;
  for (const char* folder : {"/state", "/runs", "/checkpoints"}) {
    for (const auto& entry : fs::recursive_directory_iterator(base_ + folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  for (const char* one : {"coordinator.sqlite", "rank0.log", "metrics.jsonl", "model.safetensors",
                          "manifest.json", "s0.log"}) {
    EXPECT_THAT(files, testing::Contains(testing::EndsWith(one)));
  }
  for (const std::string& file : files) {
    EXPECT_TRUE(MayRead(file)) << file;
    const bool is_private = file.find("/state/") != std::string::npos ||
                            file.find("/logs/") != std::string::npos ||
                            file.find("/daemons/") != std::string::npos;
    // Protected itself, not only by the folder that contains it.
    if (is_private) {
      EXPECT_EQ(fs::status(file).permissions(), fs::perms(0600)) << file;
    }
  }
  const bool ran = AsOtherUser([&] {
    for (const std::string& file : files) {
      if (MayRead(file)) return false;
    }
    return !ConnectBlindly(socket()).valid();
  });
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
}

TEST_F(OtherUser, IsToldNothingAtASocketThatItReaches) {
  fs::permissions(base_ + "/runtime/strata", fs::perms(0755));
  fs::permissions(socket(), fs::perms(0777));
  const bool ran = AsOtherUser([&] {
    const UniqueFd fd = ConnectBlindly(socket());
    const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if (!fd.valid()) return false;
    send(fd.get(), preface.data(), preface.size(), MSG_NOSIGNAL);
    char byte = 0;
    return recv(fd.get(), &byte, 1, 0) <= 0;
  });
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
  const CommandResult nodes = RunStrata({"nodes"});
  EXPECT_EQ(nodes.status.code, 0) << nodes.err;
  EXPECT_THAT(nodes.out, HasSubstr("connection of another user"));
  // A command does not connect to a coordinator at a place where another user could start one.
  fs::permissions(base_ + "/runtime/strata", fs::perms(0777));
  // Named here: without a name, `jobs` would continue to the next folder that it knows, where a
  // cluster of another test may be.
  const CommandResult jobs = RunStrata({"jobs", "--coordinator", "unix:" + socket()});
  EXPECT_EQ(jobs.status.code, 1);
  EXPECT_THAT(jobs.err, HasSubstr("unix:" + socket() + ": other users may replace it"));
}

}  // namespace
}  // namespace strata::tests

#include "common/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/numbers.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

std::string LogPath() {
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  return testing::TempDir() + "/" + info->name() + ".log";
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::unique_ptr<Process> StartShell(const std::string& script) {
  Process::Spec spec;
  spec.args = {"/bin/sh", "-c", script};
  spec.log_path = LogPath();
  auto process = Process::Start(spec);
  EXPECT_TRUE(process.ok()) << process.status();
  return std::move(*process);
}

// Waits until the process is gone or a zombie; false after 10 s.
bool Gone(pid_t pid) {
  for (int i = 0; i < 1000; ++i) {
    std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
    if (stat.empty() || stat.find(") Z ") != std::string::npos) return true;
    poll(nullptr, 0, 10);
  }
  return false;
}

TEST(Process, HasTheParentsVariablesButThoseThatItIsGiven) {
  ASSERT_EQ(setenv("STRATA_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("STRATA_TEST_CHANGED", "old", 1), 0);
  Process::Spec spec;
  spec.args = {"sh", "-c", "env | grep ^STRATA_TEST_ | sort"};
  spec.log_path = LogPath();
  spec.environment = {"STRATA_TEST_CHANGED=a=b", "STRATA_TEST_NEW="};
  spec.default_environment = {"STRATA_TEST_NEW=other", "STRATA_TEST_KEPT=other",
                              "STRATA_TEST_DEFAULT=1"};
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE((*process)->Reap().ok());
  EXPECT_EQ(
      ReadFile(LogPath()),
      "STRATA_TEST_CHANGED=a=b\nSTRATA_TEST_DEFAULT=1\nSTRATA_TEST_KEPT=kept\nSTRATA_TEST_NEW=\n");
}

TEST(Process, ReportsTheExitStatusAndKeepsBothStreamsInTheLog) {
  auto process = StartShell("echo out; echo err >&2; exit 3");
  ExitStatus status = process->Reap();
  EXPECT_EQ(status.code, 3);
  EXPECT_EQ(status.signal, 0);
  EXPECT_EQ(status.ToString(), "exited with status 3");
  EXPECT_EQ(ReadFile(LogPath()), "out\nerr\n");
}

TEST(Process, NamesTheSignalThatKilledIt) {
  auto process = StartShell("kill -9 $$");
  EXPECT_EQ(process->Reap().ToString(), "killed by signal 9 (Killed)");
}

TEST(Process, SaysWhyAProgramCannotStart) {
  Process::Spec spec;
  spec.args = {"/nonexistent/program"};
  auto process = Process::Start(spec);
  EXPECT_EQ(process.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(process.status().message(),
            "cannot start /nonexistent/program: No such file or directory");
}

TEST(Process, IsNotStartedWhereItsEndCouldNotBeWatched) {
  // One descriptor after the other is left, until there are enough.
  std::vector<int> taken;
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = {64, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int fd = open("/dev/null", O_RDONLY); fd >= 0; fd = open("/dev/null", O_RDONLY)) {
    taken.push_back(fd);
  }
  Process::Spec spec;
  spec.args = {"/bin/sleep", "1000"};
  std::vector<std::string> refusals;
  while (!taken.empty()) {
    auto process = Process::Start(spec);
    int children = waitpid(-1, nullptr, WNOHANG);
    if (process.ok()) {
      EXPECT_GE((*process)->pid_fd(), 0);
      EXPECT_EQ(children, 0);
      break;
    }
    EXPECT_EQ(process.status().code(), absl::StatusCode::kResourceExhausted) << process.status();
    EXPECT_EQ(children, -1) << "a child is left: " << process.status();
    refusals.emplace_back(process.status().message());
    close(taken.back());
    taken.pop_back();
  }
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (int fd : taken) close(fd);
  EXPECT_EQ(
      std::count(refusals.begin(), refusals.end(), "cannot watch /bin/sleep: Too many open files"),
      1);
}

TEST(Process, PassesOnNamedDescriptorsOnly) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);  // not close-on-exec
  Process::Spec spec;
  spec.args = {"/bin/sh", "-c", "echo hello >&3; ls /proc/self/fd >&3"};
  spec.descriptors = {{fds[1], 3}};
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status();
  close(fds[1]);
  EXPECT_TRUE((*process)->Reap().ok());
  char text[256] = {};
  ASSERT_GT(read(fds[0], text, sizeof(text) - 1), 0);
  // 4 is the folder that ls reads.
  EXPECT_STREQ(text, "hello\n0\n1\n2\n3\n4\n");
  close(fds[0]);
}

TEST(Process, ReadsFromTheDescriptorThatIsItsInputElseFromNothing) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  ASSERT_EQ(write(pipe_ends[1], "word", 4), 4);
  close(pipe_ends[1]);
  Process::Spec spec;
  spec.args = {"/bin/sh", "-c", "echo \"[$(cat)]\""};
  spec.log_path = LogPath();
  spec.stdin_fd = pipe_ends[0];
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE((*process)->Reap().ok());
  close(pipe_ends[0]);
  spec.stdin_fd = -1;
  process = Process::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_TRUE((*process)->Reap().ok());
  EXPECT_EQ(ReadFile(LogPath()), "[word]\n[]\n");
}

TEST(Process, SignalReachesTheWholeGroup) {
  auto process = StartShell("sleep 1000 & echo $!; wait");
  std::string text;
  for (int i = 0; i < 1000 && text.empty(); ++i) {
    poll(nullptr, 0, 10);
    text = ReadFile(LogPath());
  }
  int grandchild = 0;
  ASSERT_TRUE(absl::SimpleAtoi(text, &grandchild)) << text;
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Reap().signal, SIGTERM);
  EXPECT_TRUE(Gone(grandchild));
}

TEST(Process, DiesWithTheThreadThatStartedIt) {
  std::unique_ptr<Process> process;
  std::thread starter([&] { process = StartShell("exec sleep 1000"); });
  starter.join();
  EXPECT_EQ(process->Reap().signal, SIGKILL);
}

TEST(Process, IsKilledWithTheObject) {
  auto process = StartShell("trap '' TERM; sleep 1000");
  pid_t pid = process->pid();
  process.reset();
  EXPECT_TRUE(Gone(pid));
}

}  // namespace
}  // namespace strata

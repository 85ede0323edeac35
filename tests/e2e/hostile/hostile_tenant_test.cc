// Checks what a tenant's program can read of the processes that serve another tenant's job. Both
// run as the same user of the machine, from whom the kernel hides only what hides itself.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/testing/other_user.h"
#include "common/unique_fd.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

namespace fs = std::filesystem;
using ::testing::IsSupersetOf;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns the parent of a process; 0: it has ended.
int ParentOf(int pid) {
  const std::string stat = ContentOf(absl::StrCat("/proc/", pid, "/stat"));
  // Its name, in brackets, may contain spaces.
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(stat.rfind(')') + 1), ' ');
  int parent = 0;
  return fields.size() > 2 && absl::SimpleAtoi(fields[2], &parent) ? parent : 0;
}

// Returns the ids of the `strata` processes below a process, by subcommand.
std::map<std::string, int> MembersBelow(int top) {
  std::map<std::string, int> members;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    int above = ParentOf(pid);
    while (above > 1 && above != top) above = ParentOf(above);
    const std::vector<std::string> words =
        absl::StrSplit(ContentOf(absl::StrCat("/proc/", pid, "/cmdline")), '\0');
    if (above == top && words.size() > 1 && words[0] == "strata") members[words[1]] = pid;
  }
  return members;
}

// The following functions return errno; 0: access was allowed.

int TryOpen(int pid, const std::string& file) {
  const std::string path = absl::StrCat("/proc/", pid, "/", file);
  return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)).valid() ? 0 : errno;
}

int TryReadMemory(int pid) {
  // Returns the beginning of the first mapping, if the map may be read.
  uint64_t address = 0;
  std::string map = ContentOf(absl::StrCat("/proc/", pid, "/maps"));
  map = map.substr(0, map.find('-'));
  if (map.empty() || !absl::SimpleHexAtoi(map, &address)) address = 4096;
  char byte = 0;
  const iovec here = {&byte, 1}, there = {reinterpret_cast<void*>(address), 1};
  return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 ? 0 : errno;
}

int TryTrace(int pid) {
  if (ptrace(PTRACE_ATTACH, pid, nullptr, nullptr) != 0) return errno;
  waitpid(pid, nullptr, __WALL);
  ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  return 0;
}

bool Expect(const std::string& what, int got, int wanted) {
  if (got != wanted) std::fprintf(stderr, "%s: errno %d, not %d\n", what.c_str(), got, wanted);
  return got == wanted;
}

// Tries all ways into a process; returns whether each ends with `denied`.
bool TryAll(const std::string& name, int pid, bool denied) {
  bool good = true;
  for (const char* file : {"fd/0", "mem", "environ"}) {
    good &= Expect(absl::StrCat(name, " ", file), TryOpen(pid, file), denied ? EACCES : 0);
  }
  good &= Expect(name + " process_vm_readv", TryReadMemory(pid), denied ? EPERM : 0);
  good &= Expect(name + " PTRACE_ATTACH", TryTrace(pid), denied ? EPERM : 0);
  return good;
}

// A process of this user that hides nothing. It is a child, which Yama allows to be traced, too.
pid_t StartOrdinaryChild() {
  int pair[2];
  if (pipe2(pair, O_CLOEXEC) != 0) return -1;
  const UniqueFd read_end(pair[0]);
  UniqueFd write_end(pair[1]);
  const pid_t child = fork();
  if (child == 0) {
    // The other user may not open the file behind the test's own descriptor.
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    execlp("sleep", "sleep", "600", nullptr);
    _exit(127);
  }
  write_end.Reset();
  char byte = 0;
  // Until exec closes it; before that the process looks as if it had just changed its user.
  [[maybe_unused]] const ssize_t end = read(read_end.get(), &byte, 1);
  return child;
}

class Prying : public testing::Test {
 protected:
  void SetUp() override {
    if (!AsOtherUser([] { return true; })) GTEST_SKIP() << "takes root, outside of a namespace";
    char base[] = "/tmp/hostile_tenant_test-XXXXXX";
    ASSERT_NE(mkdtemp(base), nullptr);
    base_ = base;
    ASSERT_EQ(chmod(base, 0755), 0);
    // The other user cannot reach the binary that Bazel has built.
    fs::copy_file(fs::canonical(StrataBinary()), base_ + "/strata");
    fs::permissions(base_ + "/strata", fs::perms(0755));
    fs::create_directory(base_ + "/own");
    ASSERT_EQ(chown((base_ + "/own").c_str(), kOtherUser, -1), 0);
    setenv("XDG_RUNTIME_DIR", (base_ + "/own").c_str(), 1);
  }
  void TearDown() override {
    if (local_.process != nullptr) {
      kill(local_.process->pid(), SIGTERM);
      EXPECT_TRUE(WaitUntil([&] { return local_.process->TryReap().has_value(); }));
    }
    unsetenv("XDG_RUNTIME_DIR");
    if (!base_.empty()) fs::remove_all(base_);
  }

  // A cluster of that user on which a job trains. `variables`: "NAME=VALUE".
  void StartWithJob(const std::string& variables = "") {
    // The group is unchanged, as in AsOtherUser: the tracer must have it, too.
    launcher_ = {"sh", "-c",
                 absl::StrCat("shift; exec env ", variables, " setpriv --reuid=", kOtherUser,
                              " --clear-groups --pdeathsig KILL ", base_, "/strata \"$@\""),
                 "sh"};
    auto local = StartDaemon("local",
                             {"local", "--slots", "2", "--runs", base_ + "/own/runs", "--state",
                              base_ + "/own/state", "--log-level", "info"},
                             launcher_);
    ASSERT_TRUE(local.ok()) << local.status();
    local_ = *std::move(local);
    const std::string job = WriteJob(base_, LenetJob("victim", 2, 2, 1000000));
    fs::permissions(job, fs::perms(0644));
    const CommandResult submitted = RunStrata({"submit", job}, kDeadline, launcher_);
    ASSERT_EQ(submitted.status.code, 0) << submitted.err;
    // Its weights change, so each of its processes has started completely.
    ASSERT_TRUE(WaitUntil([&] {
      std::error_code none;
      return fs::file_size(base_ + "/own/runs/victim-1/metrics.jsonl", none) > 0 && !none;
    }));
    members_ = MembersBelow(local_.process->pid());
    std::vector<std::string> names;
    for (const auto& [name, pid] : members_) names.push_back(name);
    ASSERT_THAT(names, IsSupersetOf({"coordinator", "server", "worker", "aggregator", "rank"}));
  }

  std::string base_;
  std::vector<std::string> launcher_;  // runs the cluster as that user
  Daemon local_;
  std::map<std::string, int> members_;
};

TEST_F(Prying, OnDaemonsAndAggregatorsOfTheSameUserEndsWithARefusal) {
  StartWithJob();
  if (HasFatalFailure()) return;
  AsOtherUser([&] {
    bool good = true;
    for (const char* name : {"coordinator", "server", "worker", "aggregator"}) {
      good &= TryAll(name, members_.at(name), /*denied=*/true);
    }
    // The launch message, which contains the job's secret.
    good &= Expect("aggregator fd/4", TryOpen(members_.at("aggregator"), "fd/4"), EACCES);
    // Their public files stay readable.
    good &= Expect("aggregator stat", TryOpen(members_.at("aggregator"), "stat"), 0);
    return good;
  });
}

TEST_F(Prying, IsLetWhereNothingIsHidden) {
  StartWithJob();
  if (HasFatalFailure()) return;
  AsOtherUser([&] {
    const pid_t child = StartOrdinaryChild();
    bool good = child > 0 && TryAll("child", child, /*denied=*/false);
    if (child > 0) kill(child, SIGKILL);
    // Users may debug their ranks.
    for (const char* file : {"fd/4", "environ"}) {
      good &= Expect(absl::StrCat("rank ", file), TryOpen(members_.at("rank"), file), 0);
    }
    return good;
  });
}

TEST_F(Prying, IsLetWhereDaemonsAreToBeDebugged) {
  StartWithJob("STRATA_DUMPABLE=1");
  if (HasFatalFailure()) return;
  AsOtherUser([&] {
    bool good = true;
    for (const char* name : {"coordinator", "server", "worker", "aggregator"}) {
      good &= Expect(absl::StrCat(name, " environ"), TryOpen(members_.at(name), "environ"), 0);
    }
    return good;
  });
}

}  // namespace
}  // namespace strata::tests

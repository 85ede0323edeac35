#include "common/os/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/os/environment.h"
#include "common/os/kept_log.h"

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
  // One more descriptor is left free each time, until there are enough.
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

std::unique_ptr<Process> StartKept(const std::string& script, uint64_t log_bytes_max = 0) {
  Process::Spec spec;
  spec.args = {"/bin/sh", "-c", script};
  spec.log_path = LogPath();
  spec.ends_descendants = true;
  spec.log_bytes_max = log_bytes_max;
  std::filesystem::remove(LogPath());
  std::filesystem::remove(LogPath() + ".cut");
  auto process = Process::Start(spec);
  EXPECT_TRUE(process.ok()) << process.status();
  return std::move(*process);
}

// Returns the number that a script wrote to its log.
pid_t NumberInLog() {
  int number = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = ReadFile(LogPath());
    if (!text.empty() && text.back() == '\n' && absl::SimpleAtoi(text, &number)) return number;
    poll(nullptr, 0, 10);
  }
  ADD_FAILURE() << "no number in the log";
  return 0;
}

// Starts a process that leaves its parent, its session and its group, and prints its pid.
constexpr char kDaemonize[] = "(setsid sh -c 'echo $$; exec sleep 1000' &) & ";

TEST(KeptProcess, IsAsAnyOther) {
  auto process = StartKept("echo $PPID; exec sh -c 'exit 3'");
  EXPECT_EQ(process->Reap().code, 3);
  EXPECT_NE(NumberInLog(), getpid());
  EXPECT_EQ(StartKept("kill -9 $$")->Reap().ToString(), "killed by signal 9 (Killed)");
  Process::Spec spec;
  spec.args = {"/nonexistent/program"};
  spec.ends_descendants = true;
  EXPECT_EQ(Process::Start(spec).status().message(),
            "cannot start /nonexistent/program: No such file or directory");
  process = StartKept("trap 'echo 7; exit 4' TERM; echo 5; while true; do sleep 0.01; done");
  EXPECT_EQ(NumberInLog(), 5);
  process->Signal(SIGTERM);
  EXPECT_EQ(process->Reap().code, 4);
  EXPECT_TRUE(absl::EndsWith(ReadFile(LogPath()), "\n7\n"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(KeptProcess, EndsWithAllThatItHasStarted) {
  auto process = StartKept(absl::StrCat(kDaemonize, "sleep 0.2"));
  const pid_t daemon = NumberInLog();
  EXPECT_TRUE(process->Reap().ok());
  EXPECT_EQ(kill(daemon, 0), -1) << "it is there when its starter's end is known";
}

TEST(KeptProcess, IsKilledWithAllThatItHasStarted) {
  auto process = StartKept(absl::StrCat("trap '' TERM; ", kDaemonize, "while true; do wait; done"));
  const pid_t daemon = NumberInLog();
  process->Signal(SIGTERM);
  EXPECT_FALSE(process->TryReap().has_value());
  process->Signal(SIGKILL);
  EXPECT_EQ(process->Reap().signal, SIGKILL);
  EXPECT_EQ(kill(daemon, 0), -1);
}

TEST(KeptProcess, LeavesTheDescendantsOfOthersAlone) {
  auto other = StartKept("sleep 1000");
  auto process = StartKept(absl::StrCat(kDaemonize, "sleep 0.2"));
  EXPECT_TRUE(process->Reap().ok());
  EXPECT_EQ(kill(other->pid(), 0), 0);
  EXPECT_FALSE(other->TryReap().has_value());
}

TEST(KeptProcess, DoesNotOutliveAKeeperThatItHasKilled) {
  auto process = StartKept(absl::StrCat(kDaemonize, "sleep 0.2; kill -9 $PPID; sleep 1000"));
  const pid_t daemon = NumberInLog();
  EXPECT_EQ(process->Reap().signal, SIGKILL);
  EXPECT_TRUE(Gone(process->pid()));
  EXPECT_EQ(kill(daemon, 0), -1);
}

TEST(KeptProcess, IsKilledThoughItHasStoppedItsKeeper) {
  auto process = StartKept(absl::StrCat(kDaemonize, "kill -STOP $PPID; sleep 1000"));
  const pid_t daemon = NumberInLog();
  process.reset();
  EXPECT_EQ(kill(daemon, 0), -1);
}

TEST(KeptProcess, EndsWithItsStarter) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t starter = fork();
  if (starter == 0) {
    auto process = StartKept(absl::StrCat(kDaemonize, "sleep 1000"));
    const pid_t pids[] = {process->pid(), NumberInLog()};
    [[maybe_unused]] const ssize_t written = write(ends[1], pids, sizeof pids);
    pause();
  }
  pid_t pids[2] = {};
  ASSERT_EQ(read(ends[0], pids, sizeof pids), static_cast<ssize_t>(sizeof pids));
  kill(starter, SIGKILL);
  waitpid(starter, nullptr, 0);
  for (const pid_t pid : pids) EXPECT_TRUE(Gone(pid)) << pid;
  for (const int end : ends) close(end);
}

// Starts a process in this namespace with this free pid. Returns it; -1: not permitted.
pid_t ForkAs(pid_t number) {
  clone_args args = {};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<uintptr_t>(&number);
  args.set_tid_size = 1;
  return static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof args));
}

constexpr int kIsNotLet = 77;

// Runs as the first process of a pid namespace. Returns an exit status.
int SignalKeeperOnceItsChildsNumberIsAnothers() {
  // Without /proc the keeper waits for processes that have left the group, and does not end them.
  if (mount("none", "/proc", "tmpfs", 0, nullptr) != 0) return kIsNotLet;
  auto process = StartKept("gone=$(setsid sh -c 'sleep 1 >/dev/null & echo yes')");
  for (int i = 0; i < 1000 && kill(process->pid(), 0) == 0; ++i) poll(nullptr, 0, 1);
  const pid_t other = ForkAs(process->pid());
  if (other < 0) return kIsNotLet;
  if (other == 0) {
    setpgid(0, 0);
    while (true) pause();
  }
  setpgid(other, other);
  if (process->TryReap().has_value()) return 2;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    syscall(SYS_pidfd_send_signal, process->pid_fd(), signal, nullptr, 0);
  }
  if (!process->Reap().ok()) return 3;
  return waitpid(other, nullptr, WNOHANG) == 0 ? 0 : 1;
}

TEST(KeptProcess, PassesNoSignalOnToOthersWhoHaveGotItsNumber) {
  const pid_t outer = fork();
  if (outer == 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(kIsNotLet);
    const pid_t first = fork();
    if (first == 0) _exit(SignalKeeperOnceItsChildsNumberIsAnothers());
    int status = 0;
    waitpid(first, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(outer, &status, 0), outer);
  if (WEXITSTATUS(status) == kIsNotLet) GTEST_SKIP() << "namespaces are not let to this user";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: another group got a signal";
}

TEST(KeptProcess, OfALogThatIsTooLargeTheBeginningAndTheEndAreKept) {
  constexpr uint64_t kBytesMax = 64 << 10;
  // Lines of 10 bytes: 000000001, ...
  auto process = StartKept("seq -f %09.0f 0 499999", kBytesMax);
  EXPECT_TRUE(process->Reap().ok());
  const std::string text = ReadFile(LogPath());
  EXPECT_LE(text.size(), kBytesMax + kCutLineBytes);
  EXPECT_GE(text.size(), kBytesMax - 4096);
  const LogCut cut = ReadLogCut(LogPath());
  EXPECT_EQ(cut.head, kBytesMax / 2);
  EXPECT_FALSE(cut.is_changing);
  EXPECT_EQ(cut.missing + text.size() - kCutLineBytes, 5'000'000u);
  std::string head, tail;
  for (int i = 0; i < 500'000; ++i) {
    absl::StrAppendFormat(&(i < 250'000 ? head : tail), "%09d\n", i);
  }
  EXPECT_EQ(text.substr(0, cut.head), head.substr(0, cut.head));
  const std::string line = text.substr(cut.head, kCutLineBytes);
  EXPECT_TRUE(absl::StrContains(
      line, absl::StrCat("[strata: ", cut.missing,
                         " bytes are missing here: rank_log_bytes of the job is 65536]")))
      << line;
  EXPECT_EQ(line.back(), '\n');
  EXPECT_TRUE(absl::EndsWith(tail, text.substr(cut.head + kCutLineBytes)));

  // Another attempt continues the log.
  Process::Spec spec;
  spec.args = {"/bin/sh", "-c", "seq -f %09.0f 500000 599999"};
  spec.log_path = LogPath();
  spec.ends_descendants = true;
  spec.log_bytes_max = kBytesMax;
  auto next = Process::Start(spec);
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE((*next)->Reap().ok());
  EXPECT_LE(std::filesystem::file_size(LogPath()), kBytesMax + kCutLineBytes);
  EXPECT_EQ(ReadLogCut(LogPath()).missing + std::filesystem::file_size(LogPath()) - kCutLineBytes,
            6'000'000u);
  EXPECT_TRUE(absl::EndsWith(ReadFile(LogPath()), "000599999\n"));
}

// A link that a rank's program has put in place of the folder, or of the log, is not followed.
TEST(KeptProcess, WritesToNoLogBehindALink) {
  const std::string top = LogPath() + ".d", elsewhere = top + "/elsewhere";
  std::filesystem::remove_all(top);
  std::filesystem::create_directories(elsewhere);
  std::filesystem::create_directories(top + "/real");
  const std::string notes(200'000, 'n');
  for (const char* name : {"rank0.log", "rank1.log"})
    std::ofstream(elsewhere + "/" + name) << notes;
  std::filesystem::create_directory_symlink("elsewhere", top + "/logs");
  std::filesystem::create_symlink("../elsewhere/rank1.log", top + "/real/rank1.log");
  Process::Spec spec;
  spec.args = {"/bin/sh", "-c", "echo out"};
  spec.ends_descendants = true;
  spec.log_bytes_max = 64 << 10;
  for (const char* path : {"/logs/rank0.log", "/logs/new.log", "/real/rank1.log"}) {
    spec.log_path = top + path;
    const absl::Status refused = Process::Start(spec).status();
    EXPECT_TRUE(absl::StrContains(refused.message(), "cannot open log file " + top + path))
        << refused;
    LogCutter({.path = top + path, .bytes_max = 64 << 10}).Cut(/*last=*/true);
  }
  spec.log_path = top + "/real/rank0.log";
  EXPECT_TRUE(Process::Start(spec).ok());
  for (const char* name : {"rank0.log", "rank1.log"}) {
    EXPECT_TRUE(ReadFile(elsewhere + "/" + name) == notes) << name << " was written to";
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(elsewhere), {}), 2);
  std::filesystem::remove_all(top);
}

TEST(KeptLog, IsCutWhereFileSystemsCannotTakeOutARange) {
  const std::string path = absl::StrCat("/dev/shm/strata-kept-log-", getpid());
  std::ofstream(path) << std::string(200'000, 'a') << "the end\n";
  {
    LogCutter cutter({.path = path, .bytes_max = 64 << 10});
    cutter.Cut(/*last=*/true);
  }
  const std::string text = ReadFile(path);
  const LogCut cut = ReadLogCut(path);
  EXPECT_EQ(cut.missing + text.size() - kCutLineBytes, 200'008u);
  EXPECT_LE(text.size(), (64 << 10) + kCutLineBytes);
  EXPECT_EQ(text[cut.head], '\n') << "the line is one of its own";
  EXPECT_TRUE(absl::EndsWith(text, "athe end\n"));
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".cut");
}

TEST(KeptLog, IsReadAgainWhereItsCutterWasKilled) {
  const std::string path = LogPath() + ".cut";
  std::string text = "4096 17 moving";
  std::ofstream(path) << text << std::string(64 - text.size(), ' ');
  EXPECT_EQ(ReadLogCut(LogPath()), (LogCut{.head = 4096, .missing = 17, .is_changing = true}));
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() - std::chrono::seconds(11));
  EXPECT_EQ(ReadLogCut(LogPath()), (LogCut{.head = 4096, .missing = 17}));
  std::ofstream(path) << "99999999999999999999 1 stable" << std::string(64, ' ');
  EXPECT_EQ(ReadLogCut(LogPath()), LogCut()) << "no number that a log can have";
}

TEST(KeptLog, ReadersFindTheirPlaceAgain) {
  const LogCut none = {.head = 1000}, some = {.head = 1000, .missing = 500},
               more = {.head = 1000, .missing = 700};
  EXPECT_EQ(MovedOffset(900, none, some), 900u);
  EXPECT_EQ(MovedOffset(1000, none, some), 1000u) << "at the line";
  EXPECT_EQ(MovedOffset(1200, none, some), 1000u) << "what comes next was cut out";
  EXPECT_EQ(MovedOffset(1600, none, some), 1100u + kCutLineBytes);
  EXPECT_EQ(MovedOffset(1100 + kCutLineBytes, some, more), 1000u);
  EXPECT_EQ(MovedOffset(1300 + kCutLineBytes, some, more), 1100u + kCutLineBytes);
  EXPECT_EQ(MovedOffset(1300, some, some), 1300u);
}

TEST(Process, IsKilledWithTheObject) {
  auto process = StartShell("trap '' TERM; sleep 1000");
  pid_t pid = process->pid();
  process.reset();
  EXPECT_TRUE(Gone(pid));
}

// Polls until the process is in `state`; false at the deadline.
bool Becomes(pid_t pid, const std::string& state) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (ProcessState(pid) != state) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

TEST(ProcessState, TellsRunningFromStoppedAndGone) {
  EXPECT_EQ(ProcessState(getpid()), "running");
  Process::Spec spec;
  spec.args = {"sleep", "100"};
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status();
  const pid_t pid = (*process)->pid();
  EXPECT_TRUE(Becomes(pid, "running"));
  (*process)->Signal(SIGSTOP);
  EXPECT_TRUE(Becomes(pid, "stopped by a signal"));
  (*process)->Signal(SIGCONT);
  EXPECT_TRUE(Becomes(pid, "running"));
  (*process)->Signal(SIGKILL);
  EXPECT_TRUE(Becomes(pid, "gone")) << "not reaped";
  (*process)->Reap();
  EXPECT_EQ(ProcessState(pid), "gone");
}

TEST(ProcessState, TellsTheCpuTimeThatAProcessHasUsed) {
  const auto used = [] {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
  };
  while (used() < 100) {
  }
  // The kernel counts in ticks.
  EXPECT_GE(ProcessCpuMs(getpid()) + 20, 100u);
  EXPECT_LE(ProcessCpuMs(getpid()), used() + 20);
  EXPECT_EQ(ProcessCpuMs(-1), 0u);
}

TEST(ProcessState, IsNotMisledByAProcessesName) {
  ASSERT_EQ(prctl(PR_SET_NAME, "a) T (b"), 0);
  EXPECT_EQ(ProcessState(getpid()), "running");
}

TEST(Environment, VariablesAreThoseOfTheProcess) {
  ASSERT_EQ(setenv("STRATA_ENVIRONMENT_TEST", "a=b", 1), 0);
  ASSERT_EQ(setenv("STRATA_ENVIRONMENT_EMPTY", "", 1), 0);
  const Environment environment = OwnEnvironment();
  EXPECT_EQ(environment.at("STRATA_ENVIRONMENT_TEST"), "a=b");
  EXPECT_EQ(Variable(environment, "STRATA_ENVIRONMENT_TEST"), "a=b");
  EXPECT_EQ(environment.at("STRATA_ENVIRONMENT_EMPTY"), "");
  EXPECT_EQ(Variable(environment, "STRATA_ENVIRONMENT_MISSING"), "");
}

class Undumpable : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(prctl(PR_GET_DUMPABLE), 1); }
  void TearDown() override { EXPECT_EQ(prctl(PR_SET_DUMPABLE, 1), 0); }
};

TEST_F(Undumpable, IsWhatAProcessBecomes) {
  MakeUndumpable({});
  EXPECT_EQ(prctl(PR_GET_DUMPABLE), 0);
}

TEST_F(Undumpable, AProcessStaysAsItIsForWhoDebugsIt) {
  MakeUndumpable({{kDumpable, "1"}});
  EXPECT_EQ(prctl(PR_GET_DUMPABLE), 1);
}

}  // namespace
}  // namespace strata

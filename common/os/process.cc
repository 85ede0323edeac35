#include "common/os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/os/kept_log.h"

namespace strata {
namespace {

// A keeper is a process between a daemon and its child. The kernel reparents to it everything that
// the child starts and leaves behind, in any session or group (PR_SET_CHILD_SUBREAPER), so it can
// end all of that when the child has exited, before it exits itself. It is a fork of the daemon
// without an exec: it takes almost no memory of its own, and makes only calls that are safe after a
// fork of a process with threads.

// One message of a keeper over its control socket.
struct KeeperWord {
  enum Kind : int32_t { kStarted = 1, kEnded = 2 };
  int32_t kind = 0;
  int32_t value = 0;  // kStarted: the child's pid; kEnded: its status, as waitpid returns it
};

struct KeeperPlan {
  // SOCK_SEQPACKET. Each byte received is a signal for the child's group; SIGKILL is for everything
  // that it has started. If the socket closes, the daemon is gone, and all are killed.
  int control_fd = -1;
  int error_fd = -1;         // gets errno if the child cannot be forked
  LogCutter* log = nullptr;  // of the child's log; null: it is kept whole
  // Runs in the child, whose parent is the keeper.
  void (*run_child)(void* child) = nullptr;
  void* child = nullptr;
};

constexpr int kLookAtLogEveryMs = 50;
constexpr int kKillAgainEveryMs = 5;
constexpr char kTitle[] = "strata-keeper";
// Signals to the keeper that are passed on to the child.
constexpr int kPassedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// The command line of the process that forks keepers.
char* arguments_begin = nullptr;
char* arguments_end = nullptr;

// As returned by getdents64.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t bytes;
  uint8_t type;
  char name[1];
};

// Returns the pid in a folder's name; 0: it is not one.
pid_t NumberOf(const char* name) {
  pid_t number = 0;
  for (; *name >= '0' && *name <= '9'; ++name) number = number * 10 + (*name - '0');
  return *name == '\0' ? number : 0;
}

// Returns the parent of a process; 0: it is gone.
pid_t ParentOf(int proc_fd, const char* name) {
  char path[32];
  const size_t name_bytes = strnlen(name, 16);
  memcpy(path, name, name_bytes);
  memcpy(path + name_bytes, "/stat", sizeof "/stat");
  const int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[512];
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return 0;
  text[got] = '\0';
  // "PID (NAME) STATE PARENT ...", where the name may contain anything.
  char* at = strrchr(text, ')');
  if (at == nullptr || strlen(at) < 4) return 0;
  at += 4;
  *std::find(at, text + got, ' ') = '\0';
  return NumberOf(at);
}

// Calls `visit` for each child of this process. Safe after a fork. Returns false if /proc cannot be
// read.
bool VisitChildren(void (*visit)(pid_t child, void* context), void* context) {
  const int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc_fd < 0) return false;
  const pid_t own = getpid();
  alignas(DirectoryEntry) char block[8192];
  while (true) {
    const long got = syscall(SYS_getdents64, proc_fd, block, sizeof block);
    if (got <= 0) break;
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(block + at);
      at += entry->bytes;
      const pid_t number = NumberOf(entry->name);
      if (number > 0 && ParentOf(proc_fd, entry->name) == own) visit(number, context);
    }
  }
  close(proc_fd);
  return true;
}

void TakeOwnTitle() {
  prctl(PR_SET_NAME, kTitle);
  const auto room = static_cast<size_t>(arguments_end - arguments_begin);
  if (room < sizeof kTitle) return;
  memset(arguments_begin, 0, room);
  memcpy(arguments_begin, kTitle, sizeof kTitle);
}

// Closes all but these two, neither of which is 0 to 2.
void CloseAllBut(int one, int other) {
  const auto low = static_cast<unsigned>(std::min(one, other));
  const auto high = static_cast<unsigned>(std::max(one, other));
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd <= 2 && null >= 0; ++fd) dup2(null, fd);
  if (low > 3) close_range(3, low - 1, 0);
  if (high > low + 1) close_range(low + 1, high - 1, 0);
  close_range(high + 1, ~0U, 0);
}

void Kill(pid_t child, void*) { kill(child, SIGKILL); }

class Keeper {
 public:
  Keeper(const KeeperPlan& plan, pid_t child, int signal_fd)
      : child_(child), signal_fd_(signal_fd), control_fd_(plan.control_fd), log_(plan.log) {}

  // Runs until nothing is left of the child. Returns its status.
  int Run() {
    while (!HasEnded()) {
      Await(log_ != nullptr ? kLookAtLogEveryMs : -1);
      TakeSignals();
      TakeOrders();
      if (kills_) VisitChildren(&Kill, nullptr);
      if (log_ != nullptr) log_->Cut(/*last=*/false);
    }
    kill(-child_, SIGKILL);  // the group keeps its number until the child is reaped
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    is_reaped_ = true;
    EndRest();
    if (log_ != nullptr) log_->Cut(/*last=*/true);
    return status;
  }

 private:
  // Waits for an event, including a child's exit.
  void Await(int timeout_ms) const {
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {control_fd_, POLLIN, 0}};
    poll(fds, 2, timeout_ms);
  }

  // Reaps orphans.
  bool HasEnded() const {
    while (true) {
      siginfo_t info = {};
      if (waitid(P_PID, child_, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        return true;
      }
      info = {};
      if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
        return false;
      }
      if (info.si_pid != child_) waitpid(info.si_pid, nullptr, WNOHANG);
    }
  }

  void TakeSignals() const {
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof info) == sizeof info) {
      if (is_reaped_) continue;  // the number may be another group's
      for (const int signal : kPassedOn) {
        if (static_cast<uint32_t>(signal) == info.ssi_signo) kill(-child_, signal);
      }
    }
  }

  void TakeOrders() {
    char signals[16];
    while (control_fd_ >= 0) {
      const ssize_t got = recv(control_fd_, signals, sizeof signals, MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        control_fd_ = -1;  // the daemon is gone
        signals[0] = SIGKILL;
      }
      for (ssize_t i = 0; i < std::max<ssize_t>(got, 1); ++i) {
        kill(-child_, signals[i]);
        kills_ = kills_ || signals[i] == SIGKILL;
      }
    }
  }

  // A killed process leaves its own children to the keeper, which continues until none is left.
  void EndRest() const {
    while (true) {
      const pid_t reaped = waitpid(-1, nullptr, WNOHANG);
      if (reaped < 0 && errno == ECHILD) return;
      if (reaped > 0) continue;
      if (!VisitChildren(&Kill, nullptr)) return;
      TakeSignals();
      pollfd fd = {signal_fd_, POLLIN, 0};
      poll(&fd, 1, kKillAgainEveryMs);
    }
  }

  const pid_t child_;
  const int signal_fd_;
  int control_fd_;  // -1: closed
  LogCutter* const log_;
  bool kills_ = false;
  bool is_reaped_ = false;
};

void Say(int control_fd, KeeperWord::Kind kind, int value) {
  const KeeperWord word = {.kind = kind, .value = value};
  send(control_fd, &word, sizeof word, MSG_NOSIGNAL);
}

// Locates this process's command line, so that keepers can show one of their own. To be called
// before the fork.
void PrepareKeepers() {
  if (arguments_begin != nullptr) return;
  std::ifstream in("/proc/self/stat");
  std::string line;
  if (!std::getline(in, line) || line.rfind(')') == std::string::npos) return;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  // Fields 48 and 49; the state is the third.
  std::string skipped;
  for (int field = 3; field < 48; ++field) fields >> skipped;
  uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end < begin) return;
  arguments_begin = reinterpret_cast<char*>(begin);
  arguments_end = reinterpret_cast<char*>(end);
}

// Forks the child and keeps it.
[[noreturn]] void RunKeeper(const KeeperPlan& plan) {
  TakeOwnTitle();
  setpgid(0, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  const int signal_fd = signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC);
  const bool is_ready = signal_fd >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
  const pid_t child = is_ready ? _Fork() : -1;
  if (child == 0) plan.run_child(plan.child);
  if (child < 0) {
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(plan.error_fd, &error, sizeof error);
    _exit(127);
  }
  setpgid(child, child);
  Say(plan.control_fd, KeeperWord::kStarted, child);
  CloseAllBut(plan.control_fd, signal_fd);
  const int status = Keeper(plan, child, signal_fd).Run();
  Say(plan.control_fd, KeeperWord::kEnded, status);
  _exit(0);
}

// Everything that the child needs between fork and exec, prepared before: only async-signal-safe
// calls are allowed there, as other threads may have held any lock at the fork.
struct ChildPlan {
  const char* executable = nullptr;
  std::vector<char*> argv, environment;
  int stdin_fd = -1;
  int stdout_fd = -1;  // -1: inherited
  int stderr_fd = -1;
  std::vector<std::pair<int, int>> descriptors;
  int highest_kept = 2;
  int error_fd = -1;  // close-on-exec; gets errno of a failed exec
  pid_t parent = 0;
};

[[noreturn]] void FailChild(const ChildPlan& plan) {
  int error = errno;
  [[maybe_unused]] ssize_t written = write(plan.error_fd, &error, sizeof(error));
  _exit(127);
}

[[noreturn]] void RunChild(ChildPlan& plan) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // the parent died before prctl
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  // Not SIGHUP: a SIGHUP ignored by nohup is ignored by everything started under it.
  for (int signal : {SIGTERM, SIGINT, SIGPIPE, SIGCHLD}) {
    sigaction(signal, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // First moves everything out of the way of the target numbers, then into place.
  int base = plan.highest_kept + 1;
  int moved = fcntl(plan.error_fd, F_DUPFD_CLOEXEC, base);
  if (moved < 0) FailChild(plan);
  plan.error_fd = moved;
  for (auto& [ours, target] : plan.descriptors) {
    ours = fcntl(ours, F_DUPFD_CLOEXEC, base);
    if (ours < 0) FailChild(plan);
  }
  if (dup2(plan.stdin_fd, 0) < 0) FailChild(plan);
  if (plan.stdout_fd >= 0 && dup2(plan.stdout_fd, 1) < 0) FailChild(plan);
  if (plan.stderr_fd >= 0 && dup2(plan.stderr_fd, 2) < 0) FailChild(plan);
  for (auto& [ours, target] : plan.descriptors) {
    if (dup2(ours, target) < 0) FailChild(plan);
  }
  close_range(base, ~0U, CLOSE_RANGE_CLOEXEC);
  execvpe(plan.executable, plan.argv.data(), plan.environment.data());
  FailChild(plan);
}

// Run by the keeper.
void RunKept(void* plan) {
  static_cast<ChildPlan*>(plan)->parent = getppid();
  RunChild(*static_cast<ChildPlan*>(plan));
}

// The processes that this one has forked here and not reaped.
class OwnChildren {
 public:
  // Holds the lock, so no other thread sees the child before it is registered.
  template <typename InChild>
  pid_t Fork(const InChild& in_child) {
    absl::MutexLock lock(&mutex_);
    const pid_t pid = fork();
    if (pid == 0) in_child();
    if (pid > 0) pids_.insert(pid);
    return pid;
  }
  void Forget(pid_t pid) {
    absl::MutexLock lock(&mutex_);
    pids_.erase(pid);
  }
  // Kills what a killed keeper has left behind, and briefly waits for its exit.
  void KillOthers() {
    absl::MutexLock lock(&mutex_);
    for (int i = 0; i < kOrphanRounds; ++i) {
      are_left_ = false;
      VisitChildren(
          [](pid_t child, void* self) {
            auto* children = static_cast<OwnChildren*>(self);
            if (children->Knows(child)) return;
            kill(child, SIGKILL);
            waitpid(child, nullptr, WNOHANG);
            children->are_left_ = true;
          },
          this);
      if (!are_left_) return;
      poll(nullptr, 0, kOrphanRoundMs);
    }
  }

 private:
  static constexpr int kOrphanRounds = 200, kOrphanRoundMs = 5;
  // Called with the lock held, from the walk of the kernel's list.
  bool Knows(pid_t pid) const ABSL_NO_THREAD_SAFETY_ANALYSIS { return pids_.contains(pid); }

  absl::Mutex mutex_;
  absl::flat_hash_set<pid_t> pids_ ABSL_GUARDED_BY(mutex_);
  bool are_left_ = false;
};

OwnChildren& Children() {
  static OwnChildren children;
  return children;
}

// Returns pointers to "NAME=VALUE", null-terminated: this process's variables except those
// overridden by `added`, and those of `defaults` that are not set otherwise. The arguments must
// outlive the result.
std::vector<char*> MergeEnvironment(const std::vector<std::string>& added,
                                    const std::vector<std::string>& defaults) {
  const auto name = [](absl::string_view variable) {
    return variable.substr(0, variable.find('='));
  };
  absl::flat_hash_set<absl::string_view> names;
  std::vector<char*> merged;
  for (const std::string& variable : added) {
    names.insert(name(variable));
    merged.push_back(const_cast<char*>(variable.c_str()));
  }
  for (char** own = environ; *own != nullptr; ++own) {
    if (names.insert(name(*own)).second) merged.push_back(*own);
  }
  for (const std::string& variable : defaults) {
    if (names.contains(name(variable))) continue;
    merged.push_back(const_cast<char*>(variable.c_str()));
  }
  merged.push_back(nullptr);
  return merged;
}

// Errors name the file.
absl::StatusOr<UniqueFd> OpenLog(const Process::Spec& spec) {
  // The program of an earlier attempt may have put a pipe or a link there, or in place of the
  // folder.
  const int strictly = spec.ends_descendants ? O_NOFOLLOW | O_NONBLOCK | O_NOCTTY : 0;
  const size_t slash = spec.log_path.rfind('/');
  const bool has_folder = strictly != 0 && slash != std::string::npos && slash > 0;
  UniqueFd folder;
  if (has_folder) {
    const std::string path = spec.log_path.substr(0, slash);
    folder.Reset(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!folder.valid()) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open log file ", spec.log_path));
    }
  }
  UniqueFd log(openat(has_folder ? folder.get() : AT_FDCWD,
                      spec.log_path.c_str() + (has_folder ? slash + 1 : 0),
                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | strictly, spec.log_mode));
  if (!log.valid() && (strictly == 0 || (errno != ENXIO && errno != ELOOP))) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open log file ", spec.log_path));
  }
  struct stat facts;
  const bool is_file =
      strictly == 0 || (log.valid() && fstat(log.get(), &facts) == 0 && S_ISREG(facts.st_mode) &&
                        fcntl(log.get(), F_SETFL, O_APPEND) == 0);
  if (is_file) return log;
  return absl::InvalidArgumentError(
      absl::StrCat("cannot open log file ", spec.log_path, ": not a file"));
}

// Refers to the spec, and to null_fd and log_fd (-1: none).
ChildPlan PlanOf(const Process::Spec& spec, int null_fd, int log_fd) {
  ChildPlan plan;
  plan.executable = (spec.executable.empty() ? spec.args[0] : spec.executable).c_str();
  for (const std::string& arg : spec.args) plan.argv.push_back(const_cast<char*>(arg.c_str()));
  plan.argv.push_back(nullptr);
  plan.environment = MergeEnvironment(spec.environment, spec.default_environment);
  plan.stdin_fd = spec.stdin_fd >= 0 ? spec.stdin_fd : null_fd;
  plan.stdout_fd = spec.stdout_fd >= 0 ? spec.stdout_fd : log_fd;
  plan.stderr_fd = log_fd;
  plan.descriptors = spec.descriptors;
  for (const auto& [ours, target] : spec.descriptors) {
    plan.highest_kept = std::max(plan.highest_kept, target);
  }
  plan.parent = getpid();
  return plan;
}

// A keeper's plan, and this process's end of its socket.
struct Keeping {
  std::optional<LogCutter> cutter;
  UniqueFd control, keepers_control;
  KeeperPlan plan;
};

absl::Status PrepareKeeper(const Process::Spec& spec, ChildPlan* child, Keeping* keeping) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 ||
      prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot keep ", spec.args[0]));
  }
  keeping->control.Reset(ends[0]);
  keeping->keepers_control.Reset(ends[1]);
  keeping->plan = {.control_fd = ends[1],
                   .error_fd = child->error_fd,
                   .log = nullptr,
                   .run_child = &RunKept,
                   .child = child};
  if (spec.log_bytes_max > 0 && !spec.log_path.empty()) {
    keeping->cutter.emplace(LogCutter::Options{
        .path = spec.log_path, .bytes_max = spec.log_bytes_max, .mode = spec.log_mode});
    keeping->plan.log = &*keeping->cutter;
  }
  PrepareKeepers();
  return absl::OkStatus();
}

// Returns the errno of a failure before the child's program ran; 0: it runs.
int AwaitExec(int error_fd) {
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(error_fd, &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  return got == sizeof(error) ? error : 0;
}

// Kills a process that could not be watched.
void KillAndReap(pid_t pid) {
  kill(-pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  Children().Forget(pid);
}

}  // namespace

std::string ExitStatus::ToString() const {
  if (signal != 0) return absl::StrCat("killed by signal ", signal, " (", strsignal(signal), ")");
  return absl::StrCat("exited with status ", code);
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const Spec& spec) {
  if (spec.args.empty()) return absl::InvalidArgumentError("no program to start");
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  absl::StatusOr<UniqueFd> log = spec.log_path.empty() ? UniqueFd() : OpenLog(spec);
  if (!log.ok()) return log.status();
  ChildPlan plan = PlanOf(spec, null.get(), log->get());
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  const UniqueFd error_read(error_pipe[0]);
  UniqueFd error_write(error_pipe[1]);
  plan.error_fd = error_pipe[1];
  Keeping keeping;
  if (spec.ends_descendants) {
    if (absl::Status made = PrepareKeeper(spec, &plan, &keeping); !made.ok()) return made;
  }
  const pid_t pid = Children().Fork([&] {
    if (spec.ends_descendants) RunKeeper(keeping.plan);
    RunChild(plan);
  });
  if (pid < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot fork ", spec.args[0]));
  setpgid(pid, pid);  // also here: whichever is first; Signal must find the group
  const int pid_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pid_fd < 0) {  // its exit would go unnoticed
    absl::Status status =
        absl::ErrnoToStatus(errno, absl::StrCat("cannot watch ", plan.executable));
    KillAndReap(pid);
    return status;
  }
  std::unique_ptr<Process> process(new Process(pid, pid_fd));  // private constructor
  error_write.Reset();
  keeping.keepers_control.Reset();
  if (const int error = AwaitExec(error_read.get()); error != 0) {
    process->Reap();
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", plan.executable));
  }
  if (!spec.ends_descendants) return process;
  absl::Status started = process->AwaitStart(std::move(keeping.control));
  if (!started.ok()) return started;
  return process;
}

absl::Status Process::AwaitStart(UniqueFd control) {
  KeeperWord word;
  ssize_t got = 0;
  do {
    got = recv(control.get(), &word, sizeof word, 0);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof word || word.kind != KeeperWord::kStarted) {
    return absl::InternalError("the keeper of a process has ended before it began");
  }
  pid_ = word.value;
  control_ = std::move(control);
  return absl::OkStatus();
}

Process::~Process() {
  Signal(SIGKILL);
  while (!TryReap().has_value()) {
    pollfd fd = {pid_fd_, POLLIN, 0};
    if (poll(&fd, 1, 1000) == 0) Signal(SIGKILL);
  }
  if (pid_fd_ >= 0) close(pid_fd_);
}

void Process::Signal(int signal) {
  if (status_.has_value()) return;
  if (!control_.valid()) {
    kill(-pid_, signal);
    return;
  }
  const char order = static_cast<char>(signal);
  send(control_.get(), &order, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (signal != SIGKILL) return;
  SignalKeeper(std::exchange(was_killed_, true) ? SIGKILL : SIGCONT);
}

void Process::SignalKeeper(int signal) {
  syscall(SYS_pidfd_send_signal, pid_fd_, signal, nullptr, 0);
}

std::optional<ExitStatus> Process::TryReap() {
  if (status_.has_value()) return status_;
  int raw = 0;
  // The number of its group is free once it is reaped.
  siginfo_t info = {};
  if (waitid(P_PID, forked_, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
    if (info.si_pid == 0) return std::nullopt;
    if (!control_.valid())
      kill(-forked_, SIGKILL);  // anything that it may have started in its
                                // group
  }
  const pid_t got = waitpid(forked_, &raw, WNOHANG);
  if (got == 0) return std::nullopt;
  Children().Forget(forked_);
  // Reaped elsewhere: cannot happen unless SIGCHLD is ignored.
  status_ = got == forked_ ? Ended(raw) : ExitStatus{.code = 255};
  return status_;
}

ExitStatus Process::Ended(int raw) {
  if (control_.valid()) {
    KeeperWord word;
    const ssize_t got = recv(control_.get(), &word, sizeof word, MSG_DONTWAIT);
    if (got != sizeof word || word.kind != KeeperWord::kEnded) {
      Children().KillOthers();  // the keeper was killed
      return {.signal = SIGKILL};
    }
    raw = word.value;
  }
  ExitStatus status;
  if (WIFSIGNALED(raw)) status.signal = WTERMSIG(raw);
  if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
  return status;
}

ExitStatus Process::Reap() {
  while (!status_.has_value()) {
    pollfd fd = {pid_fd_, POLLIN, 0};
    poll(&fd, 1, 1000);
    TryReap();
  }
  return *status_;
}

namespace {

// Fields before the CPU times, counted from the state.
constexpr int kFieldsBeforeCpu = 11;

// Returns /proc's fields of the process after its pid and name, from its state on; empty if
// unavailable.
std::string StateAndMore(pid_t pid) {
  std::ifstream in(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(in, line)) return "";
  // "PID (NAME) STATE ...", where the name may contain anything.
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? "?"
                                                                      : line.substr(name_end + 2);
}

}  // namespace

std::string ProcessState(pid_t pid) {
  const std::string stat = StateAndMore(pid);
  // If /proc is mounted with hidepid, only root sees an undumpable process there.
  if (stat.empty()) return kill(pid, 0) == 0 ? kProcessRunning : kProcessGone;
  switch (stat[0]) {
    case 'T':
      return kProcessStopped;
    case 't':
      return kProcessDebugged;
    case 'D':
      return "waiting for the disk";
    case 'Z':
    case 'X':
      return kProcessGone;
    default:
      return kProcessRunning;
  }
}

uint64_t ProcessCpuMs(pid_t pid) {
  std::istringstream in(StateAndMore(pid));
  std::string skipped;
  for (int i = 0; i < kFieldsBeforeCpu; ++i) in >> skipped;
  uint64_t user = 0, system = 0;
  if (!(in >> user >> system)) return 0;
  return (user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

}  // namespace strata

#include "common/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace strata {
namespace {

// All that the child needs between fork and exec, made before: only async-signal-safe calls are
// allowed there, as other threads may have held any lock at the fork.
struct ChildPlan {
  const char* executable = nullptr;
  std::vector<char*> argv, environment;
  int stdin_fd = -1;
  int stdout_fd = -1;  // -1: inherited
  int stderr_fd = -1;
  std::vector<std::pair<int, int>> descriptors;
  int highest_kept = 2;
  int error_fd = -1;  // close-on-exec; errno of a failed exec goes there
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
  for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD}) {
    sigaction(signal, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);

  // First move everything out of the way of the target numbers, then into place.
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

// Returns pointers to "NAME=VALUE", null at the end: this process's variables but those that
// `added` gives another value, and those of `defaults` that nobody has. Both stay.
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

class ScopedFd {
 public:
  explicit ScopedFd(int fd = -1) : fd_(fd) {}
  ~ScopedFd() { reset(-1); }
  ScopedFd(const ScopedFd&) = delete;
  ScopedFd& operator=(const ScopedFd&) = delete;
  void reset(int fd) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

std::string ExitStatus::ToString() const {
  if (signal != 0) return absl::StrCat("killed by signal ", signal, " (", strsignal(signal), ")");
  return absl::StrCat("exited with status ", code);
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const Spec& spec) {
  if (spec.args.empty()) return absl::InvalidArgumentError("no program to start");
  const std::string& executable = spec.executable.empty() ? spec.args[0] : spec.executable;
  ChildPlan plan;
  plan.executable = executable.c_str();
  for (const std::string& arg : spec.args) plan.argv.push_back(const_cast<char*>(arg.c_str()));
  plan.argv.push_back(nullptr);
  plan.environment = MergeEnvironment(spec.environment, spec.default_environment);
  ScopedFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  plan.stdin_fd = spec.stdin_fd >= 0 ? spec.stdin_fd : null.get();
  ScopedFd log;
  if (!spec.log_path.empty()) {
    log.reset(
        open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, spec.log_mode));
    if (log.get() < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open log file ", spec.log_path));
    }
    plan.stdout_fd = plan.stderr_fd = log.get();
  }
  if (spec.stdout_fd >= 0) plan.stdout_fd = spec.stdout_fd;
  plan.descriptors = spec.descriptors;
  for (const auto& [ours, target] : spec.descriptors) {
    plan.highest_kept = std::max(plan.highest_kept, target);
  }
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  ScopedFd error_read(error_pipe[0]);
  ScopedFd error_write(error_pipe[1]);
  plan.error_fd = error_pipe[1];
  plan.parent = getpid();

  pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot fork ", spec.args[0]));
  if (pid == 0) RunChild(plan);
  setpgid(pid, pid);  // also here: whoever is first; Signal must find the group
  int pid_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pid_fd < 0) {  // nobody would ever see its end
    absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("cannot watch ", executable));
    kill(-pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return status;
  }
  std::unique_ptr<Process> process(new Process(pid, pid_fd));  // private constructor
  error_write.reset(-1);
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(error_read.get(), &error, sizeof(error));
  } while (got < 0 && errno == EINTR);
  if (got == sizeof(error)) {
    process->Reap();
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", executable));
  }
  return process;
}

Process::~Process() {
  Signal(SIGKILL);
  Reap();
  if (pid_fd_ >= 0) close(pid_fd_);
}

void Process::Signal(int signal) {
  if (!status_.has_value()) kill(-pid_, signal);
}

std::optional<ExitStatus> Process::TryReap() {
  if (status_.has_value()) return status_;
  int raw = 0;
  pid_t got = waitpid(pid_, &raw, WNOHANG);
  if (got == 0) return std::nullopt;
  ExitStatus status;
  if (got == pid_) {
    if (WIFSIGNALED(raw)) status.signal = WTERMSIG(raw);
    if (WIFEXITED(raw)) status.code = WEXITSTATUS(raw);
    kill(-pid_, SIGKILL);  // what it may have started in its group
  } else {
    status.code = 255;  // reaped elsewhere: cannot happen unless SIGCHLD is ignored
  }
  status_ = status;
  return status_;
}

ExitStatus Process::Reap() {
  while (!status_.has_value()) {
    pollfd fd = {pid_fd_, POLLIN, 0};
    poll(&fd, 1, 1000);
    TryReap();
  }
  return *status_;
}

}  // namespace strata

#ifndef STRATA_COMMON_OS_PROCESS_H_
#define STRATA_COMMON_OS_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata {

// How a process ended.
struct ExitStatus {
  int code = 0;    // where signal is 0
  int signal = 0;  // that killed it; 0: it exited by itself

  bool ok() const { return code == 0 && signal == 0; }
  // "exited with status 1", "killed by signal 9 (Killed)".
  std::string ToString() const;
};

// A child process. It leads its own process group and is killed by the kernel when the thread that
// started it ends, so start it from a thread that lives as long as the child should. One that has a
// keeper is killed when this process ends.
//
// Threads: one. The destructor kills the group (SIGKILL) and reaps, if that has not happened.
class Process {
 public:
  struct Spec {
    std::vector<std::string> args;  // args[0]: what it is called, and run unless `executable` says
    // A path, or a name to look up in PATH.
    std::string executable;
    // stdout and stderr are appended there; empty: inherited.
    std::string log_path;
    mode_t log_mode = 0600;  // of one that is made, before the umask
    // All that the child starts ends with it, also what has left its group: a keeper sees to that
    // (process.cc). This process then takes the children of keepers that others have killed, and
    // kills them: it must start all of its own children as this class does.
    bool ends_descendants = false;
    // With it: bytes of the log that are kept (kept_log.h). 0: all.
    uint64_t log_bytes_max = 0;
    // The child's standard output instead; the descriptor stays the caller's. -1: as above.
    int stdout_fd = -1;
    // The child's standard input; the descriptor stays the caller's. -1: /dev/null.
    int stdin_fd = -1;
    // "NAME=VALUE" each: what the child has in its environment besides this process's, or in place
    // of it.
    std::vector<std::string> environment;
    // Likewise, but only where neither this process's environment nor `environment` has the name.
    std::vector<std::string> default_environment;
    // Descriptors to pass on: (ours, the number it has in the child, from 3). All others are
    // closed.
    std::vector<std::pair<int, int>> descriptors;
  };

  // Errors: names the executable or the log file and the reason (NotFound, PermissionDenied,
  // ResourceExhausted: no descriptor is left to watch it by, ...). No child is left then.
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Spec& spec);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the process has ended, with all that it has started if it has a keeper; owned by
  // this object.
  int pid_fd() const { return pid_fd_; }

  // Sends a signal to the whole group; nothing once reaped. With a keeper SIGKILL is for all that
  // the process has started; a second one also ends a keeper that does not do its work.
  void Signal(int signal);

  // The exit status once the process has ended (reaps it); the same again afterwards.
  std::optional<ExitStatus> TryReap();
  // Waits for the end.
  ExitStatus Reap();

 private:
  Process(pid_t forked, int pid_fd) : pid_(forked), forked_(forked), pid_fd_(pid_fd) {}
  // Learns from its keeper which process it is.
  absl::Status AwaitStart(UniqueFd control);
  ExitStatus Ended(int raw);
  void SignalKeeper(int signal);

  pid_t pid_;         // the child's
  pid_t forked_;      // its keeper's, or again the child's
  int pid_fd_;        // of forked_
  UniqueFd control_;  // of its keeper
  bool was_killed_ = false;
  std::optional<ExitStatus> status_;
};

inline constexpr char kProcessRunning[] = "running";  // also while it sleeps
inline constexpr char kProcessStopped[] = "stopped by a signal";
inline constexpr char kProcessDebugged[] = "stopped by a debugger";
inline constexpr char kProcessGone[] = "gone";

// Returns a process's state as the kernel reports it: one of the above, or "waiting for the disk".
std::string ProcessState(pid_t pid);
// Returns the CPU time in milliseconds that the process has used, with all its threads; 0 where
// that is not known.
uint64_t ProcessCpuMs(pid_t pid);

}  // namespace strata

#endif  // STRATA_COMMON_OS_PROCESS_H_

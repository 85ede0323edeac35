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

// The outcome of a process.
struct ExitStatus {
  int code = 0;    // valid if signal is 0
  int signal = 0;  // the signal that killed it; 0: it exited by itself

  bool ok() const { return code == 0 && signal == 0; }
  // "exited with status 1", "killed by signal 9 (Killed)".
  std::string ToString() const;
};

// A child process. It leads its own process group and is killed by the kernel when the thread that
// started it ends, so start it from a thread that lives as long as the child should. A child with a
// keeper is killed when this process ends.
//
// Threads: one. The destructor kills the group (SIGKILL) and reaps, if that has not happened.
class Process {
 public:
  struct Spec {
    std::vector<std::string> args;  // args[0]: its name, and the program to run unless `executable`
                                    // is set
    // A path, or a name to look up in PATH.
    std::string executable;
    // stdout and stderr are appended there; empty: inherited.
    std::string log_path;
    mode_t log_mode = 0600;  // for a new file, before the umask
    // Everything that the child starts ends with it, even processes that have left its group: a
    // keeper ensures that (process.cc). This process then inherits the children of killed keepers,
    // and kills them: it must start all of its own children with this class.
    bool ends_descendants = false;
    // With ends_descendants: bytes of the log that are kept (kept_log.h). 0: all.
    uint64_t log_bytes_max = 0;
    // The child's standard output instead; the caller keeps the descriptor. -1: as above.
    int stdout_fd = -1;
    // The child's standard input; the caller keeps the descriptor. -1: /dev/null.
    int stdin_fd = -1;
    // "NAME=VALUE" each: added to this process's environment, or overriding it.
    std::vector<std::string> environment;
    // The same, but only if neither this process's environment nor `environment` has the name.
    std::vector<std::string> default_environment;
    // Descriptors to pass on: (ours, the child's number for it, from 3). All others are closed.
    std::vector<std::pair<int, int>> descriptors;
  };

  // Errors, after which no child is left: names the executable or the log file and the reason
  // (NotFound, PermissionDenied, ResourceExhausted: no descriptor to watch it, ...).
  static absl::StatusOr<std::unique_ptr<Process>> Start(const Spec& spec);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the process has exited, and with a keeper everything that it has started; owned
  // by this object.
  int pid_fd() const { return pid_fd_; }

  // Sends a signal to the whole group; does nothing once reaped. With a keeper, SIGKILL is for
  // everything that the process has started; a second one also kills an unresponsive keeper.
  void Signal(int signal);

  // Returns the exit status once the process has exited (reaps it); the same again afterwards.
  std::optional<ExitStatus> TryReap();
  // Waits for its exit.
  ExitStatus Reap();

 private:
  Process(pid_t forked, int pid_fd) : pid_(forked), forked_(forked), pid_fd_(pid_fd) {}
  // Learns the process's pid from its keeper.
  absl::Status AwaitStart(UniqueFd control);
  ExitStatus Ended(int raw);
  void SignalKeeper(int signal);

  pid_t pid_;         // the child's
  pid_t forked_;      // its keeper's, or the child's again
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
// Returns the CPU time in milliseconds that the process has used, with all its threads; 0 if
// unknown.
uint64_t ProcessCpuMs(pid_t pid);

}  // namespace strata

#endif  // STRATA_COMMON_OS_PROCESS_H_

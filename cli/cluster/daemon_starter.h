#ifndef STRATA_CLI_CLUSTER_DAEMON_STARTER_H_
#define STRATA_CLI_CLUSTER_DAEMON_STARTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::cli {

// A coordinator, server or worker to start: `strata ARGS`.
struct DaemonSpec {
  std::string title;  // unique in the cluster: "server s1"
  std::string host;   // of the hosts file; empty: this one
  std::vector<std::string> args;
  std::string keys = {};  // what it gets as --keys-fd, a secret; empty: nothing
};

// A daemon that was started. The destructor ends it (SIGKILL).
class RunningDaemon {
 public:
  virtual ~RunningDaemon() = default;
  // Once it has ended: nothing.
  virtual void Signal(int signal) = 0;
};

// Starts daemons: child processes here (ChildStarter), or on other hosts (HostSet).
//
// Threads: one event loop's; the events are called on it, none of them from within Start and none
// after the RunningDaemon is gone.
class DaemonStarter {
 public:
  struct Events {
    // Its ready line, without the line break; once.
    std::function<void(const std::string& line)> on_ready;
    // It has ended: its own last words, or its exit status in words; once, the last event.
    std::function<void(const std::string& why)> on_end;
  };

  virtual ~DaemonStarter() = default;
  // Errors: what the operating system says, with the file's name.
  virtual absl::StatusOr<std::unique_ptr<RunningDaemon>> Start(const DaemonSpec& spec,
                                                               Events events) = 0;
  // Returns false once the connection to the host is lost: no daemon can be started there.
  virtual bool Reaches(const std::string& /*host*/) const { return true; }
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_DAEMON_STARTER_H_

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
  std::string keys = {};  // passed as --keys-fd, a secret; empty: none
};

// A started daemon. The destructor kills it (SIGKILL).
class RunningDaemon {
 public:
  virtual ~RunningDaemon() = default;
  // Does nothing once it has exited.
  virtual void Signal(int signal) = 0;
};

// Starts daemons: child processes here (ChildStarter), or on other hosts (HostSet).
//
// Threads: one event loop's; the events are called on it, none of them from within Start and none
// after the RunningDaemon is gone.
class DaemonStarter {
 public:
  struct Events {
    // Called once with its ready line, without the line break.
    std::function<void(const std::string& line)> on_ready;
    // Called once, as the last event, when it has exited: its own last message, or its exit status
    // as text.
    std::function<void(const std::string& why)> on_end;
  };

  virtual ~DaemonStarter() = default;
  // Errors: the operating system's, with the file's name.
  virtual absl::StatusOr<std::unique_ptr<RunningDaemon>> Start(const DaemonSpec& spec,
                                                               Events events) = 0;
  // Returns false once the connection to the host is lost: no daemon can be started there.
  virtual bool Reaches(const std::string& /*host*/) const { return true; }
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_DAEMON_STARTER_H_

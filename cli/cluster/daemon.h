#ifndef STRATA_CLI_CLUSTER_DAEMON_H_
#define STRATA_CLI_CLUSTER_DAEMON_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/os/stop_request.h"

namespace strata::cli {

// A daemon's life in the foreground: start, print the ready line on stdout, wait for SIGTERM,
// Ctrl-C or `request` to be raised, leave the cluster if there is time for that, stop. A second
// signal ends the leaving. Returns the exit status. A signal during the start ends the process at
// once: nothing needs cleanup yet.
struct DaemonSteps {
  std::function<absl::Status()> start;
  std::function<std::string()> ready_line;  // after start
  // After a signal: announces that the daemon will stop, and checks whether everything that it held
  // has moved.
  absl::Duration notice;  // limit for that; 0: skipped
  std::function<void()> leave;
  std::function<bool()> has_left;
  std::function<void()> stop;
};
int RunDaemon(StopRequest* request, const DaemonSteps& steps);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_DAEMON_H_

#ifndef STRATA_CLI_CLUSTER_DAEMON_H_
#define STRATA_CLI_CLUSTER_DAEMON_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/os/stop_request.h"

namespace strata::cli {

// A daemon's life in the foreground: start, say so on stdout, wait for SIGTERM, Ctrl-C or `request`
// to be raised, leave the cluster where there is time for that, stop. A second signal ends the
// leaving. Returns the exit status. A signal while it starts ends the process at once:
// nothing has begun that would need an end.
struct DaemonSteps {
  std::function<absl::Status()> start;
  std::function<std::string()> ready_line;  // after start
  // After a signal: says that the daemon is about to end, and whether all that it had is elsewhere.
  absl::Duration notice;  // how long that may take; 0: it is not asked for
  std::function<void()> leave;
  std::function<bool()> has_left;
  std::function<void()> stop;
};
int RunDaemon(StopRequest* request, const DaemonSteps& steps);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_DAEMON_H_

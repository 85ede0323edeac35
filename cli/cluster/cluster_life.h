#ifndef STRATA_CLI_CLUSTER_CLUSTER_LIFE_H_
#define STRATA_CLI_CLUSTER_CLUSTER_LIFE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/cluster/daemon_starter.h"
#include "common/os/event_loop.h"

namespace strata::cli {

// The daemons in the order in which they are stopped.
enum class DaemonRole { kWorker, kServer, kCoordinator };

struct PlannedDaemon {
  DaemonRole role = DaemonRole::kWorker;
  DaemonSpec spec;  // servers and workers: without --coordinator, which is added
};

// Restarts daemons that exit by themselves: after a delay that doubles with each recent exit,
// unless there were too many.
struct Supervision {
  absl::Duration first_delay = absl::Milliseconds(200);
  absl::Duration longest_delay = absl::Seconds(5);
  size_t restarts_max = 5;  // within `within`
  absl::Duration within = absl::Minutes(1);
};

// A cluster's daemons from start to stop: the coordinator, then one server and worker after the
// other, so that they register in this order (node 0 of a job is on the first worker). Once all are
// ready, a daemon that exits may be restarted, with the same options.
//
// Threads: the event loop's. Callbacks must not destroy it.
class ClusterLife {
 public:
  struct Options {
    std::vector<PlannedDaemon> plan;  // coordinator first
    // Host name at which the others reach the coordinator; empty: the one that it listens on.
    std::string coordinator_host;
    absl::Duration ready_deadline = absl::Seconds(60);
    // Per role; then SIGKILL, and after the same time again it is abandoned.
    absl::Duration stop_deadline = absl::Seconds(10);
    // nullopt: no daemon is restarted. A daemon on an unreachable host never is.
    std::optional<Supervision> supervision;
  };
  struct Callbacks {
    // A daemon is ready; may be null.
    std::function<void(const PlannedDaemon&, const std::string& ready_line)> on_progress;
    // All daemons are ready; or which one is not, and why.
    std::function<void(const absl::Status&)> on_ready;
    // A daemon has exited unexpectedly, and why. It is not restarted.
    std::function<void(const PlannedDaemon&, const std::string& why)> on_lost;
    // The same, but it is restarted after `delay`. May be null without supervision.
    std::function<void(const PlannedDaemon&, const std::string& why, absl::Duration delay)>
        on_restart = nullptr;
  };

  ClusterLife(EventLoop* loop, DaemonStarter* starter, Options options, Callbacks callbacks);

  void Start();
  // Sends a signal to the ready workers, which pass it to their ranks.
  void SignalWorkers(int signal);
  // Ends workers, then servers, then the coordinator; calls `done` when none is left.
  void Stop(std::function<void()> done);

  // HOST:PORT, once ready.
  const std::string& coordinator() const { return coordinator_; }

 private:
  struct Daemon {
    const PlannedDaemon* planned;
    std::unique_ptr<RunningDaemon> running;
    bool ready = false;
    bool gone = false;
    std::vector<absl::Time> ends = {};  // unexpected ones, recently
  };

  void StartNext();
  absl::Status StartDaemon(Daemon* daemon);
  // Schedules a restart of the daemon; returns false if it has exited too often.
  bool Restart(Daemon* daemon, const std::string& why);
  // Returns the message for a daemon that has exited too often.
  std::string TooOften(const std::string& why) const;
  void OnReadyLine(Daemon* daemon, const std::string& line);
  void OnEnd(Daemon* daemon, const std::string& why);
  void OnReadyDeadline();
  void Ready(const absl::Status& status);
  void StopNext();
  void OnStopDeadline(DaemonRole role, bool killed);

  OwnedTimers<EventLoop> timers_;
  DaemonStarter* starter_;
  const Options options_;
  const Callbacks callbacks_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::string coordinator_;
  std::string listens_at_;  // the coordinator, once ready
  bool said_ready_ = false;
  bool stopping_ = false;
  int stage_ = 0;  // the DaemonRole being stopped
  bool signalled_ = false;
  std::function<void()> stopped_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_CLUSTER_LIFE_H_

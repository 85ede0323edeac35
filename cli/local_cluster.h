#ifndef STRATA_CLI_LOCAL_CLUSTER_H_
#define STRATA_CLI_LOCAL_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/process/event_loop.h"
#include "common/process/process.h"
#include "common/unique_fd.h"

namespace strata::cli {

// A whole cluster as child processes of this one: one coordinator, servers s0, s1, ... and workers
// w0, w1, ... The kernel kills them if this process dies.
//
// Threads: the event loop's. Callbacks may not destroy it.
class LocalCluster {
 public:
  struct Options {
    int servers = 1;
    int shards = 1;  // per server
    int nodes = 1;
    int slots = 1;  // per node
    std::string listen = "127.0.0.1:0";
    std::string state_dir;
    std::string runs_dir;
    std::string log_dir;  // a log per daemon
    std::string log_level = "info";
    std::string binary = "/proc/self/exe";
    absl::Duration ready_deadline = absl::Seconds(60);
    absl::Duration stop_deadline = absl::Seconds(10);  // per role; then SIGKILL
  };
  struct Callbacks {
    // All daemons are ready; or which one is not, and why.
    std::function<void(const absl::Status&)> on_ready;
    // A daemon has ended that nobody stopped: "server s1: killed by signal 9 (Killed)".
    std::function<void(const std::string&)> on_lost;
  };

  LocalCluster(EventLoop* loop, Options options, Callbacks callbacks);
  ~LocalCluster();

  void Start();
  // Ends workers, then servers, then the coordinator; calls `done` when none is left.
  void Stop(std::function<void()> done);

  // HOST:PORT, once ready.
  const std::string& coordinator() const { return coordinator_; }

 private:
  enum class Role { kWorker, kServer, kCoordinator };  // in the order in which they are stopped
  struct Daemon {
    Role role;
    std::string title;  // "server s1"
    std::string log_path;
    std::unique_ptr<Process> process;
    UniqueFd out;  // its standard output
    std::string line;
    bool ready = false;
    bool gone = false;
  };

  void Spawn(Role role, const std::string& title, std::vector<std::string> args);
  bool SpawnNext();
  void OnOutput(Daemon* daemon);
  void OnReadyLine(Daemon* daemon);
  void OnEnd(Daemon* daemon);
  void Ready(const absl::Status& status);
  void StopNext();

  EventLoop* loop_;
  const Options options_;
  const Callbacks callbacks_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::string coordinator_;
  bool said_ready_ = false;
  bool stopping_ = false;
  int stage_ = 0;  // the Role that is being stopped
  bool signalled_ = false;
  std::function<void()> stopped_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace strata::cli

#endif  // STRATA_CLI_LOCAL_CLUSTER_H_

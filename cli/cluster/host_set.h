#ifndef STRATA_CLI_CLUSTER_HOST_SET_H_
#define STRATA_CLI_CLUSTER_HOST_SET_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/cluster/daemon_starter.h"
#include "cli/cluster/host_connection.h"
#include "cli/cluster/hosts_file.h"
#include "common/process/event_loop.h"
#include "common/process/owned_timers.h"

namespace strata::cli {

// Daemons on other hosts: one connection per host, which `strata host` at its other end outlives by
// the time that it takes to end the daemons, whatever becomes of this process.
//
// Threads: the event loop's. Callbacks may not destroy it.
class HostSet : public DaemonStarter {
 public:
  struct Options {
    std::vector<Host> hosts;
    std::string ssh;
    std::string binary;  // on the hosts
    std::string version;
    std::string log_dir;  // on the hosts
    std::string log_level = "info";
    absl::Duration answer_deadline = absl::Seconds(30);
    absl::Duration close_deadline = absl::Seconds(5);
    // How often a host hears from us, and without a word for how long it ends its daemons.
    absl::Duration alive_interval = absl::Seconds(10);
    absl::Duration silence_max = absl::Seconds(60);
  };

  HostSet(EventLoop* loop, Options options);
  ~HostSet() override;

  // Connects to all hosts at once. `done` gets one line for each that cannot be used.
  void Connect(std::function<void(std::vector<std::string> failures)> done);
  // Errors: Unavailable, the host's connection is lost.
  absl::StatusOr<std::unique_ptr<RunningDaemon>> Start(const DaemonSpec& spec,
                                                       Events events) override;
  // Ends the connections and what still runs at their ends.
  void Close(std::function<void()> done);

 private:
  class Daemon;

  struct Running {
    std::string host;
    Events events;
  };

  void OnAnswer(const std::string& host, const absl::Status& status);
  void OnMessage(const HostMessage& message);
  void OnHostLost(const std::string& host, const std::string& why);
  void OnDaemonEnd(const std::string& title, const std::string& why);
  void OnAnswerDeadline();
  void SayAlive();
  void CloseIfDone();

  EventLoop* loop_;
  OwnedTimers<EventLoop> timers_;
  const Options options_;
  std::map<std::string, std::unique_ptr<HostConnection>> connections_;  // by host
  std::map<std::string, Running> running_;                              // by title
  std::set<std::string> waiting_;  // hosts that have not answered
  std::vector<std::string> failures_;
  std::function<void(std::vector<std::string>)> connected_;
  std::function<void()> closed_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_HOST_SET_H_

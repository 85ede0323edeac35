#ifndef STRATA_CLI_CLUSTER_HOST_SET_H_
#define STRATA_CLI_CLUSTER_HOST_SET_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/cluster/daemon_starter.h"
#include "cli/cluster/host_message.h"
#include "cli/cluster/hosts_file.h"
#include "cli/options/line_reader.h"
#include "common/os/event_loop.h"
#include "common/os/process.h"
#include "common/unique_fd.h"

namespace strata::cli {

// A `strata host` on another host, behind ssh. Destroying this object closes the connection, and
// `strata host` ends its daemons.
//
// Threads: the event loop's. Callbacks must not destroy it.
class HostConnection {
 public:
  struct Options {
    std::string destination;  // in ssh's syntax
    // The command that runs another one on a host: shell words to which destination and command are
    // appended.
    std::string ssh;
    std::string binary;                  // on that host
    std::string version;                 // the expected output of --version
    std::vector<std::string> host_args;  // of `strata host`
  };
  struct Events {
    // The host can start daemons; or the reason in one line. Once.
    std::function<void(const absl::Status&)> on_answer;
    // A message of the host, after a positive answer.
    std::function<void(const HostMessage&)> on_message;
    // The connection has ended after an answer, and why. Once, the last event.
    std::function<void(const std::string& why)> on_end;
  };

  HostConnection(EventLoop* loop, Options options, Events events);
  ~HostConnection();

  void Start();
  // Dropped if the connection has ended.
  void Send(const HostMessage& message);
  // Sends nothing more: the host ends its daemons and then the connection.
  void CloseInput();
  // Ends the ssh command at once.
  void Kill();
  // Stops waiting for an answer.
  void Refuse(const std::string& why);

  bool ended() const { return process_ == nullptr; }

 private:
  absl::Status StartProcess();
  void OnOutput();
  void OnLine(const std::string& line);
  void OnEnd();
  std::string WhyEnded(const ExitStatus& status) const;
  void Answer(const absl::Status& status);

  EventLoop* loop_;
  const Options options_;
  const Events events_;
  std::unique_ptr<Process> process_;
  UniqueFd input_;                    // the command's standard input
  std::optional<LineReader> output_;  // its standard output
  UniqueFd errors_;                   // a memory file with its standard error
  bool version_is_good_ = false;
  bool answered_ = false;
};

// Daemons on other hosts: one connection per host. When it ends for any reason, `strata host` at
// its other end only takes the time to end its daemons.
//
// Threads: the event loop's. Callbacks must not destroy it.
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
    // The interval of our messages to a host, and the silence after which a host ends its daemons.
    absl::Duration alive_interval = absl::Seconds(10);
    absl::Duration silence_max = absl::Seconds(60);
  };

  HostSet(EventLoop* loop, Options options);
  ~HostSet() override;

  // Connects to all hosts at once. `done` gets one line per unusable host.
  void Connect(std::function<void(std::vector<std::string> failures)> done);
  // Errors: Unavailable, the host's connection is lost.
  absl::StatusOr<std::unique_ptr<RunningDaemon>> Start(const DaemonSpec& spec,
                                                       Events events) override;
  bool Reaches(const std::string& host) const override;
  // Closes the connections and ends what still runs at their ends.
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

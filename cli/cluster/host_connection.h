#ifndef STRATA_CLI_CLUSTER_HOST_CONNECTION_H_
#define STRATA_CLI_CLUSTER_HOST_CONNECTION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "cli/cluster/host_message.h"
#include "cli/program/line_reader.h"
#include "common/process/event_loop.h"
#include "common/process/process.h"
#include "common/unique_fd.h"

namespace strata::cli {

// A `strata host` on another host, behind ssh. When this object goes, so does the connection, and
// `strata host` ends its daemons.
//
// Threads: the event loop's. Callbacks may not destroy it.
class HostConnection {
 public:
  struct Options {
    std::string destination;  // as ssh takes it
    // What runs a command on a host: a shell's words, to which destination and command are added.
    std::string ssh;
    std::string binary;                  // there
    std::string version;                 // that it must print for --version
    std::vector<std::string> host_args;  // of `strata host`
  };
  struct Events {
    // The host can start daemons; or in one line why not. Once.
    std::function<void(const absl::Status&)> on_answer;
    // A message of the host, after a good answer.
    std::function<void(const HostMessage&)> on_message;
    // The connection has ended, after an answer, and why. Once, the last event.
    std::function<void(const std::string& why)> on_end;
  };

  HostConnection(EventLoop* loop, Options options, Events events);
  ~HostConnection();

  void Start();
  // Lost if the connection has ended.
  void Send(const HostMessage& message);
  // Nothing more is sent: the host ends its daemons and then the connection.
  void CloseInput();
  // Ends the ssh command at once.
  void Kill();
  // Gives up the wait for an answer.
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

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_HOST_CONNECTION_H_

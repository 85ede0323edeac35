#ifndef STRATA_CLI_CLUSTER_HOST_MESSAGE_H_
#define STRATA_CLI_CLUSTER_HOST_MESSAGE_H_

#include <optional>
#include <string>
#include <vector>

namespace strata::cli {

// Messages between `strata launch` and the `strata host` at the other end of an ssh connection: one
// JSON object per line.
struct HostMessage {
  enum class Kind {
    // Messages to the host.
    kAlive,   // the launcher is alive
    kStart,   // a daemon: title, args, keys
    kSignal,  // to a daemon: title, signal
    // Messages from the host.
    kUp,     // ready to start daemons
    kReady,  // a daemon: title, text = its ready line
    kEnded,  // a daemon: title, text = why
  };
  Kind kind = Kind::kAlive;
  std::string title;
  std::string text;
  std::vector<std::string> args;
  std::string keys;  // of a daemon to start, see DaemonSpec
  int signal = 0;
};

// Returns the line, without its break.
std::string EncodeHostMessage(const HostMessage& message);
// nullopt: malformed.
std::optional<HostMessage> DecodeHostMessage(const std::string& line);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_HOST_MESSAGE_H_

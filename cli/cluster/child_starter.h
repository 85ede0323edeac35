#ifndef STRATA_CLI_CLUSTER_CHILD_STARTER_H_
#define STRATA_CLI_CLUSTER_CHILD_STARTER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/cluster/daemon_starter.h"
#include "common/os/event_loop.h"

namespace strata::cli {

// Daemons as child processes of this one; the kernel kills them if this process dies.
class ChildStarter : public DaemonStarter {
 public:
  struct Options {
    std::string log_dir;  // one log per daemon; must exist
    std::string log_level = "info";
    std::string binary = "/proc/self/exe";
    // By DaemonSpec::host: a command prefix that runs a command in other namespaces of this
    // machine. Other hosts are this one.
    std::map<std::string, std::vector<std::string>> enter;
  };

  ChildStarter(EventLoop* loop, Options options);

  absl::StatusOr<std::unique_ptr<RunningDaemon>> Start(const DaemonSpec& spec,
                                                       Events events) override;

 private:
  EventLoop* loop_;
  const Options options_;
};

// Makes the directory if need be. Errors: FailedPrecondition "cannot write to directory DIR: why".
absl::Status MakeWritableDirectory(const std::string& dir);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_CHILD_STARTER_H_

#ifndef STRATA_SERVER_COORDINATOR_SERVICE_FRONT_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_FRONT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/keys/key_file.h"
#include "common/unique_fd.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace strata::server {

// The coordinator's gRPC server, which is given its connections.
//
// Threads: Take from one at a time and not after Stop, the others from one.
class Front {
 public:
  struct Options {
    // The keys shown to peers that come by TCP; none: nothing is encrypted.
    std::optional<keys::KeyFile> own = {};
    // A connection over which nothing has been asked for so long is ended.
    absl::Duration idle_after = absl::Seconds(30);
    absl::Duration silence = absl::Seconds(5);  // for so long a peer may confirm nothing
  };
  // Serves with `services`, which outlive it. Errors: Internal.
  static absl::StatusOr<std::unique_ptr<Front>> Serve(const Options& options,
                                                      const std::vector<grpc::Service*>& services);
  // Answers to each call, whatever it is, with Unavailable and what `text` then returns; that may
  // be called by any thread.
  static absl::StatusOr<std::unique_ptr<Front>> Refuse(const Options& options,
                                                       std::function<std::string()> text);
  virtual ~Front() = default;  // stops

  // `is_own`: it came by the Unix socket of this user.
  virtual void Take(UniqueFd fd, bool is_own) = 0;
  // Ends all connections, after a short time in which calls may end by themselves. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_FRONT_H_

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

// The coordinator's gRPC server; connections are handed to it.
//
// Threads: Take from one at a time and not after Stop, the others from one.
class Front {
 public:
  struct Options {
    // The keys shown to peers on TCP; absent: nothing is encrypted.
    std::optional<keys::KeyFile> own = {};
    // A connection without a request for this long is closed.
    absl::Duration idle_after = absl::Seconds(30);
    absl::Duration silence = absl::Seconds(5);  // how long a peer may leave data unacknowledged
  };
  // Serves with `services`, which outlive it. Errors: Internal.
  static absl::StatusOr<std::unique_ptr<Front>> Serve(const Options& options,
                                                      const std::vector<grpc::Service*>& services);
  // Answers every call with Unavailable and the result of `text`, which any thread may call.
  static absl::StatusOr<std::unique_ptr<Front>> Refuse(const Options& options,
                                                       std::function<std::string()> text);
  virtual ~Front() = default;  // stops

  // `is_own`: it came through this user's Unix socket.
  virtual void Take(UniqueFd fd, bool is_own) = 0;
  // Closes all connections after a short grace period for open calls. Idempotent.
  virtual void Stop() = 0;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_FRONT_H_

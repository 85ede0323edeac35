#ifndef STRATA_SERVER_COORDINATOR_SERVICE_DOORKEEPER_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_DOORKEEPER_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/service/admission.h"

namespace strata::server {

// One who was let in, for as long as the call lasts.
struct Guest {
  Caller caller;
  Gate::Pass pass;
};

// Lets in who may make a call, and counts who may not.
//
// Threads: any.
class Doorkeeper {
 public:
  // `access` outlives it.
  explicit Doorkeeper(const Access* access) : access_(access) {}

  // Who makes a call, where they may make it. A connection without TLS is the Unix socket's, whose
  // other end the acceptor has looked at, or that of a coordinator which takes everybody. Errors:
  // Unauthenticated, PermissionDenied, each in one line; they are counted.
  // ResourceExhausted: as many as may are inside; who may not make the call takes no place from
  // them.
  absl::StatusOr<Guest> LetIn(const grpc::ServerContext& context, Right right, Gate* gate);
  // Counts one who was refused further inside, and logs it unless there were many.
  void CountRefused(const std::string& peer, const absl::Status& why);
  uint64_t refused() const { return refused_; }

 private:
  absl::StatusOr<Caller> Admit(const grpc::ServerContext& context, Right right);

  const Access* const access_;
  std::atomic<uint64_t> refused_ = 0;
};

// Returns a status of the same code and text.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_DOORKEEPER_H_

#ifndef STRATA_SERVER_COORDINATOR_SERVICE_IDENTIFY_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_IDENTIFY_H_

#include <grpcpp/server_context.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/coordinator/access/access.h"

namespace strata::server {

// Who makes a call, where they may make it. A connection without TLS is the Unix socket's, whose
// other end the acceptor has looked at, or that of a coordinator which takes everybody. Errors:
// Unauthenticated, PermissionDenied, each in one line.
absl::StatusOr<Caller> Admit(const grpc::ServerContext& context, const Access& access, Right right);

// Returns a status of the same code and text.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_IDENTIFY_H_

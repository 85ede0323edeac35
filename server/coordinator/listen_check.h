#ifndef STRATA_SERVER_COORDINATOR_LISTEN_CHECK_H_
#define STRATA_SERVER_COORDINATOR_LISTEN_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace strata::server {

// Whether "HOST:PORT" can be listened on at this moment: gRPC does not say why it cannot. Errors
// name the address: InvalidArgument (not HOST:PORT, unknown host, not this host's), AlreadyExists
// (port in use), PermissionDenied.
absl::Status CheckListenable(const std::string& address);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_LISTEN_CHECK_H_

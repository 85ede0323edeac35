#ifndef STRATA_SERVER_COORDINATOR_SERVICE_LISTENING_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_LISTENING_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata::server {

// Returns sockets that listen on "HOST:PORT", one for each of the host's addresses, all on one
// port; port 0 stands for any free one. They do not block. Errors name the address: InvalidArgument
// (not HOST:PORT, unknown host, not this host's), AlreadyExists (port in use), PermissionDenied.
absl::StatusOr<std::vector<UniqueFd>> ListenOn(const std::string& address);

// Returns the port of a listening socket; 0 when it has none.
int BoundPort(const UniqueFd& listener);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_LISTENING_H_

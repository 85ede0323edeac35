#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ENDPOINTS_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ENDPOINTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::server {

// Returns the members of an etcd from "HOST:PORT,HOST:PORT". Errors: InvalidArgument naming what is
// not a HOST:PORT.
absl::StatusOr<std::vector<std::string>> ParseEndpoints(const std::string& text);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ETCD_ENDPOINTS_H_

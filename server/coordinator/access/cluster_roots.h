#ifndef STRATA_SERVER_COORDINATOR_ACCESS_CLUSTER_ROOTS_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_CLUSTER_ROOTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata::server {

// Which authority a cluster on etcd has, so that no coordinator of another one leads it, and none
// whose keys were left behind when they changed. Pure.

// The value of its key. `roots`: SHA-256 of the authority's roots in hex, the newest first; none:
// the cluster has no keys.
std::string RootsValue(const std::vector<std::string>& roots);

// Whether a coordinator with these roots may lead the cluster with this value. Errors:
// FailedPrecondition: the cluster is another one, or has newer keys; DataLoss: it is no such value.
absl::Status CheckRoots(const std::string& value, const std::vector<std::string>& roots);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_CLUSTER_ROOTS_H_

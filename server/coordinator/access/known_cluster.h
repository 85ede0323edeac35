#ifndef STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace strata::server {

// A coordinator's folder remembers, in STATE/etcd_cluster, which cluster in etcd it is of. So a
// coordinator that is pointed to another etcd, or to none, says so and does not start over there
// while the jobs of its cluster are forgotten.

// Returns whether it could be a cluster's id: 16 hexadecimal digits.
bool IsClusterId(absl::string_view id);

struct ClusterInEtcd {
  std::string etcd;  // "etcd at HOST:PORT"
  std::string name;  // of one word
  std::string id;    // empty: no cluster is there yet
};

// Checks that the coordinator with this folder may be one of that cluster; if so the folder is of
// it from now on. Errors: FailedPrecondition: the folder is of another cluster, naming both;
// DataLoss: what the folder remembers is damaged; those of ReadFile and WriteFileAtomically.
absl::Status KeepToCluster(const std::string& state_dir, const ClusterInEtcd& found);

// Checks that a coordinator without etcd may have this folder. Errors: FailedPrecondition naming
// the cluster that it is of; the others as above.
absl::Status RequireStandaloneState(const std::string& state_dir);

// Which authority a cluster on etcd has, so that no coordinator of another one leads it, and none
// whose keys were left behind when they changed. Pure.

// The value of its key. `roots`: SHA-256 of the authority's roots in hex, the newest first; none:
// the cluster has no keys.
std::string RootsValue(const std::vector<std::string>& roots);

// Checks that a coordinator with these roots may lead the cluster with this value. Errors:
// FailedPrecondition: the cluster is another one, or has newer keys; DataLoss: it is no such value.
absl::Status CheckRoots(const std::string& value, const std::vector<std::string>& roots);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_

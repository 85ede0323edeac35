#ifndef STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace strata::server {

// A coordinator's folder remembers, in STATE/etcd_cluster, which cluster in etcd it is of. So a
// coordinator that is pointed to another etcd, or to none, says so and does not begin anew there
// while the jobs of its cluster are forgotten.

// Whether it could be a cluster's id: 16 hexadecimal digits.
bool IsClusterId(absl::string_view id);

struct ClusterInEtcd {
  std::string etcd;  // "etcd at HOST:PORT"
  std::string name;  // of one word
  std::string id;    // empty: no cluster is there yet
};

// Whether the coordinator with this folder may be one of that cluster; if so the folder is of it
// from now on. Errors: FailedPrecondition: the folder is of another cluster, naming both; DataLoss:
// what the folder remembers is damaged; those of ReadFile and WriteFileAtomically.
absl::Status KeepToCluster(const std::string& state_dir, const ClusterInEtcd& found);

// Whether a coordinator without etcd may have this folder. Errors: FailedPrecondition naming the
// cluster that it is of; the others as above.
absl::Status KeepToNoCluster(const std::string& state_dir);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_

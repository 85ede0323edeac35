#ifndef STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace strata::server {

// A coordinator's folder remembers in STATE/etcd_cluster which cluster in etcd it belongs to. A
// coordinator that is later pointed to another etcd, or to none, then reports that instead of
// starting an empty cluster and forgetting its jobs.

// Returns whether `id` has the form of a cluster's id: 16 hexadecimal digits.
bool IsClusterId(absl::string_view id);

struct ClusterInEtcd {
  std::string etcd;  // "etcd at HOST:PORT"
  std::string name;  // a single word
  std::string id;    // empty: there is no cluster yet
};

// Checks that the coordinator with this folder may belong to that cluster; if so, the folder
// remembers it from now on. Errors: FailedPrecondition: the folder belongs to another cluster,
// naming both; DataLoss: the file is damaged; those of ReadFile and WriteFileAtomically.
absl::Status KeepToCluster(const std::string& state_dir, const ClusterInEtcd& found);

// Checks that a coordinator without etcd may use this folder. Errors: FailedPrecondition naming the
// cluster that the folder belongs to; otherwise as above.
absl::Status RequireStandaloneState(const std::string& state_dir);

// Records which authority a cluster on etcd has, so that neither a coordinator of another authority
// nor one with outdated keys can lead it. Pure.

// Returns the value of the authority key. `roots`: SHA-256 of the authority's roots in hex, newest
// first; empty: the cluster has no keys.
std::string RootsValue(const std::vector<std::string>& roots);

// Checks that a coordinator with these roots may lead the cluster with this value. Errors:
// FailedPrecondition: another cluster, or one with newer keys; DataLoss: `value` is malformed.
absl::Status CheckRoots(const std::string& value, const std::vector<std::string>& roots);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_KNOWN_CLUSTER_H_

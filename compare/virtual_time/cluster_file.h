#ifndef STRATA_COMPARE_VIRTUAL_TIME_CLUSTER_FILE_H_
#define STRATA_COMPARE_VIRTUAL_TIME_CLUSTER_FILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace strata::compare {

// A cluster and the files that it names.
struct ClusterFile {
  proto::Cluster cluster;  // defaults filled in, checked
  // Milliseconds, by file name as written in the cluster.
  std::map<std::string, std::vector<double>> traces;
};

// Reads a file of protobuf text and the traces that it names. Errors: NotFound, InvalidArgument,
// one line: the file, the place or the field, and what is wrong.
absl::StatusOr<ClusterFile> ReadCluster(const std::string& path);

// Parses protobuf text. `source` names it in errors ("cluster.textproto:3:5: ..."). Errors:
// InvalidArgument, one line.
absl::StatusOr<proto::Cluster> ParseCluster(const std::string& text, const std::string& source);
// Writes every default of cluster.proto except the name into absent fields. Idempotent.
void FillClusterDefaults(proto::Cluster* cluster);
// Checks a cluster with defaults filled in, but not its traces. Errors: InvalidArgument naming
// field, value and what is allowed.
absl::Status CheckCluster(const proto::Cluster& cluster);

// One number per line. Errors: InvalidArgument naming source and line.
absl::StatusOr<std::vector<double>> ParseTrace(const std::string& text, const std::string& source);

// Returns "virtual time, two sites: 8 nodes, 64 slots, 8 servers x 2 shards (5f3a9c01)". The number
// distinguishes clusters and traces.
std::string DescribeCluster(const ClusterFile& file);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_CLUSTER_FILE_H_

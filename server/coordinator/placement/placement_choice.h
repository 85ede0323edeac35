#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {

// The daemon and the host that a node of a job runs on.
struct NodeHost {
  std::string daemon;
  std::string host;             // as ServerShards'
  double link_bytes_per_s = 0;  // as ServerShards'
};

struct PlacementChoice {
  std::vector<ServerShards> servers;  // those that hold chunks, in the order given, with shares
  std::string reason;                 // one line: what was chosen, what it costs, and the others
};

// Chooses the servers that hold a job's chunks, and how many each. DEDICATED are those on hosts
// without a node of the job, ON_WORKERS those on a node's host, MIXED both; shares are those with
// which the last link ends first (link_shares.h). AUTO takes the one that ends first, among equals
// the one on fewer hosts. Of a host whose daemons say different rates the least counts; unless all
// hosts' are known, all are taken as equal. A daemon that does not say its host has one of its own.
// Pure.
//
// `servers` are reached by all nodes. REQUIRES: !nodes.empty(). Errors: FailedPrecondition in one
// line: no server fits the wish.
absl::StatusOr<PlacementChoice> ChoosePlacement(proto::Job::Placement wish, uint64_t model_bytes,
                                                const std::vector<NodeHost>& nodes,
                                                const std::vector<ServerShards>& servers);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_

#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {

// A host of a job, as its link to the others sees it. What stays on a host crosses no link.
struct LinkHost {
  uint32_t nodes = 0;       // of the job that run on it
  bool has_shards = false;  // that may hold chunks
  double rate = 1;          // what the link carries each way; more than 0, in any unit
};

// Returns what crosses the link of a host each way in a step, in models: with m of the job's n
// nodes on it and a share x of the model on its shards, its nodes push 1 - x of the model each, and
// n - m others are answered x each: m (1 - x) + (n - m) x. Pushes one way, as much in answers the
// other.
double LinkLoad(uint32_t nodes_here, uint32_t nodes, double share);

struct LinkShares {
  std::vector<double> of_host;  // of the model; the sum is 1
  double step = 0;              // models per unit of rate: the greatest load / rate of all links
};

// Returns the shares with which the last link ends as early as possible. Where several are as good,
// the hosts that hold chunks end together, as far as they can.
//
// With m nodes on a host a load grows by n - 2m per share. A host of more than half of the nodes
// therefore takes everything: that is best for each link at once. A link of exactly half of the
// nodes carries the same whatever its share: such hosts take what the others leave. For all others
// it is water-filling: shares grow with a common level of load / rate, from m / rate on.
// For k hosts without nodes and n with one each, links alike, k <= n, n > 1, that is
// 2 (n - 1) / D and (n - k) / D with D = n^2 + kn - 2k (as in BytePS, OSDI 2020).
//
// REQUIRES: a host with shards, a host with nodes, rates above 0.
LinkShares BalanceLinks(const std::vector<LinkHost>& hosts);

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
// which the last link ends first. AUTO takes the one that ends first, among equals
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

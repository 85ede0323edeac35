#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {

// A host of a job with its link to the others. Traffic within a host crosses no link.
struct LinkHost {
  uint32_t nodes = 0;       // nodes of the job on it
  bool has_shards = false;  // it may hold chunks
  double rate = 1;          // capacity of the link in each direction; more than 0, in any unit
};

// Returns the traffic of a host's link in each direction per step, in models. With m of the job's n
// nodes on it and a share x of the model on its shards, its nodes push 1 - x of the model each, and
// n - m others are answered x each: m (1 - x) + (n - m) x. Pushes go one way, as many answers the
// other.
double LinkLoad(uint32_t nodes_here, uint32_t nodes, double share);

struct LinkShares {
  std::vector<double> of_host;  // fractions of the model; the sum is 1
  double step = 0;              // models per unit of rate: the greatest load / rate of all links
};

// Returns the shares that minimize the time of the slowest link. If several are equally good, hosts
// that hold chunks finish together as far as possible.
//
// With m nodes on a host its load grows by n - 2m per share. A host with more than half of the
// nodes therefore takes everything, which is best for every link. A link of a host with exactly
// half of the nodes carries the same whatever its share, so such hosts take the remainder. For all
// others it is water-filling: shares grow with a common level of load / rate, starting at m / rate.
// For k hosts without nodes and n with one each, equal links, k <= n, n > 1, the shares are 2 (n -
// 1) / D and (n - k) / D with D = n^2 + kn - 2k (as in BytePS, OSDI 2020).
//
// REQUIRES: a host with shards, a host with nodes, rates above 0.
LinkShares BalanceLinks(const std::vector<LinkHost>& hosts);

// The daemon and the host of a job's node.
struct NodeHost {
  std::string daemon;
  std::string host;             // as in ServerShards
  double link_bytes_per_s = 0;  // as in ServerShards
};

struct PlacementChoice {
  std::vector<ServerShards> servers;  // the chosen servers, in the order given, with shares
  std::string reason;                 // one line: the choice, its cost, and the alternatives
};

// Chooses the servers that hold a job's chunks, and their shares. DEDICATED servers are on hosts
// without a node of the job, ON_WORKERS on a node's host, MIXED takes both; the shares minimize the
// time of the slowest link. AUTO takes the fastest of these, of equal ones that on fewer hosts. If
// daemons of a host report different rates, the least counts; unless the rates of all hosts are
// known, they count as equal. A daemon without a known host counts as a host of its own. Pure.
//
// `servers` are reached by all nodes. REQUIRES: !nodes.empty(). Errors: FailedPrecondition in one
// line: no server fits the wish.
absl::StatusOr<PlacementChoice> ChoosePlacement(proto::Job::Placement wish, uint64_t model_bytes,
                                                const std::vector<NodeHost>& nodes,
                                                const std::vector<ServerShards>& servers);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_PLACEMENT_CHOICE_H_

#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_LINK_SHARES_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_LINK_SHARES_H_

#include <cstdint>
#include <vector>

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

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_LINK_SHARES_H_

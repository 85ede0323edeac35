#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_REACHED_SERVERS_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_REACHED_SERVERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/members/reachability.h"
#include "server/coordinator/placement/rank_allocation.h"

namespace strata::server {

// Finds the live servers that workers have in common, and the workers on which a job has most of
// them: a job that has another server does not wait for one that a worker cannot reach. Pure; reads
// membership and reachability and owns nothing.
class ReachedServers {
 public:
  // The live servers, grouped by whether workers reach them.
  struct Common {
    std::vector<const Daemon*> reached;                         // by all of the workers
    std::string pending;                                        // why more may follow soon
    std::vector<std::pair<std::string, std::string>> left_out;  // names and reasons
  };

  // `membership` and `reachability` outlive it.
  ReachedServers(const Membership* membership, const Reachability* reachability)
      : membership_(membership), reachability_(reachability) {}

  Common ByAll(const std::vector<std::string>& workers, absl::Time now) const;
  // Assigns the ranks to workers that reach all servers. If there are too few, to the workers with
  // the most servers in common, and among equals to those of the newest protocol version. The
  // outcome is not kFits if nowhere enough workers have a server in common.
  RankAllocation Allocate(const RankWish& wish, const std::vector<WorkerSlots>& workers,
                          absl::Time now) const;

 private:
  const Membership* const membership_;
  const Reachability* const reachability_;
};

// Returns the daemons of the blocks, in their order.
std::vector<std::string> BlockDaemons(const std::vector<RankBlock>& blocks);

// The requirements of a running job's node that has lost its worker.
struct SpareWish {
  uint32_t ranks = 1;
  bool on_gpus = false;
  std::vector<std::string> servers;  // servers that it must reach
  std::string first;                 // preferred if it fits; empty: none
  std::string last;                  // only if no other fits; empty: none
};

struct SpareWorker {
  std::string daemon;  // empty: none now, for `reason`
  std::string reason;
  // There will be one once running jobs have ended: later requests for slots wait behind this one.
  bool waits_for_slots = false;
  // A suitable worker, other than the last choice, has yet to report what it reaches.
  bool waits_for_reach = false;
};

// Chooses a worker that has the slots free, reaches the servers and has no other node of the job,
// in the order of `workers`. Pure.
SpareWorker ChooseSpareWorker(const SpareWish& wish, std::vector<WorkerSlots> workers,
                              const ReachedServers& reached, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_REACHED_SERVERS_H_

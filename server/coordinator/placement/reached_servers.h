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

// Finds which live servers workers have in common, and on which workers a job has most of them: a
// server that a worker cannot reach holds no job up that has another. Pure; reads membership and
// reachability and owns nothing.
class ReachedServers {
 public:
  // The live servers, by what some workers reach of them.
  struct Common {
    std::vector<const Daemon*> reached;                         // by all of the workers
    std::string pending;                                        // why more may soon be
    std::vector<std::pair<std::string, std::string>> left_out;  // names, and why
  };

  // `membership` and `reachability` outlive it.
  ReachedServers(const Membership* membership, const Reachability* reachability)
      : membership_(membership), reachability_(reachability) {}

  Common ByAll(const std::vector<std::string>& workers, absl::Time now) const;
  // Gives the ranks to workers that reach all servers; where there are too few of those, to the
  // workers that have the most servers in common, and among equals to those that speak the newest
  // version of the protocol. The outcome is not kFits when nowhere enough
  // workers have one in common.
  RankAllocation Allocate(const RankWish& wish, const std::vector<WorkerSlots>& workers,
                          absl::Time now) const;

 private:
  const Membership* const membership_;
  const Reachability* const reachability_;
};

// Returns the daemons of the blocks, in their order.
std::vector<std::string> BlockDaemons(const std::vector<RankBlock>& blocks);

// The needs of a node of a running job that has lost its worker.
struct SpareWish {
  uint32_t ranks = 1;
  bool on_gpus = false;
  std::vector<std::string> servers;  // that it is to reach, all of them
  std::string first;                 // taken before all others, where it fits; empty: none is
  std::string last;                  // taken where no other fits; empty: none is
};

struct SpareWorker {
  std::string daemon;  // empty: there is none now, for `reason`
  std::string reason;
  // There will be one once running jobs have ended: who asks for slots later waits behind it.
  bool waits_for_slots = false;
  // One that has the slots free, and is not the last choice, has yet to say what it reaches.
  bool waits_for_reach = false;
};

// Chooses a worker that has the slots free and reaches the servers, in the order of `workers`, of
// which none plays another node of the job. Pure.
SpareWorker ChooseSpareWorker(const SpareWish& wish, std::vector<WorkerSlots> workers,
                              const ReachedServers& reached, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_REACHED_SERVERS_H_

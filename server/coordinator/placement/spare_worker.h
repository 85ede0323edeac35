#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_SPARE_WORKER_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_SPARE_WORKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/placement/rank_allocation.h"
#include "server/coordinator/placement/reached_servers.h"

namespace strata::server {

// What one node of a running job, which has lost its worker, asks of another one.
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

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_SPARE_WORKER_H_

#ifndef STRATA_SERVER_COORDINATOR_JOBS_FIND_WORKER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_FIND_WORKER_H_

#include "absl/time/time.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_queue.h"
#include "server/coordinator/placement/reached_servers.h"
#include "server/coordinator/placement/spare_worker.h"

namespace strata::server {

// Chooses a worker for a node of a running job, which plays no other node of it, and does not only
// stand in; for one that trains, none where it has failed before.
SpareWorker FindWorker(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                       const ReachedServers& reached, absl::Time now);
// The same for one that has died: where no worker has room, or none but the one where it failed,
// one that stands in is chosen, of those that have the slots free the one that has most; none once
// the node has failed where one stands in.
SpareWorker FindWorkerOrStandIn(const JobNode& node, const JobEntry& entry, const JobQueue& queue,
                                const ReachedServers& reached, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_FIND_WORKER_H_

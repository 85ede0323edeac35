#ifndef STRATA_SERVER_COORDINATOR_JOBS_RING_PLACEMENT_H_
#define STRATA_SERVER_COORDINATOR_JOBS_RING_PLACEMENT_H_

#include "absl/status/status.h"
#include "server/coordinator/jobs/job_entry.h"

namespace strata::server {

// Checks that the nodes can all-reduce among themselves. Errors: InvalidArgument, for the user.
absl::Status CheckRing(const JobEntry& entry);

// Lays the chunks out over the nodes and writes the ring into the record. REQUIRES: kStarting,
// entry->all_ready(). Errors: InvalidArgument, for the user.
absl::Status PlaceRing(JobEntry* entry);

// Writes the algorithm that is faster on the slowest of the measured links into record and
// status. REQUIRES: all nodes' links are measured.
void ChooseRingAlgorithm(JobEntry* entry);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_RING_PLACEMENT_H_

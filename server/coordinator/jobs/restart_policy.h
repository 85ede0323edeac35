#ifndef STRATA_SERVER_COORDINATOR_JOBS_RESTART_POLICY_H_
#define STRATA_SERVER_COORDINATOR_JOBS_RESTART_POLICY_H_

#include "absl/time/time.h"
#include "server/coordinator/jobs/job_entry.h"

namespace strata::server {

// Whether a job that fails now, while it runs or waits to go on, goes on by itself: it asks for
// that, has trained before, so that it is not the job itself that cannot be started, and has not
// failed too often lately.
bool MayGoOn(const JobEntry& entry, absl::Time now);

// Returns how long it is left alone before: the longer, the more often it has failed without a
// checkpoint in between.
absl::Duration DelayBeforeGoingOn(const JobEntry& entry);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_RESTART_POLICY_H_

#ifndef STRATA_SERVER_COORDINATOR_CHECKPOINTS_RESTART_POLICY_H_
#define STRATA_SERVER_COORDINATOR_CHECKPOINTS_RESTART_POLICY_H_

#include "absl/time/time.h"
#include "proto/control.pb.h"

namespace strata::server {

// Whether a job that fails now, while it runs or waits to go on, goes on by itself: it asks for
// that, has trained before, so that it is not the job itself that cannot be started, and has not
// failed too often lately.
bool MayGoOn(const proto::Job& job, const proto::JobStatus& status, bool has_trained,
             absl::Time now);

// Returns how long it is left alone before: the longer, the more often it has failed without a
// checkpoint in between.
absl::Duration DelayBeforeGoingOn(const proto::JobStatus& status);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_CHECKPOINTS_RESTART_POLICY_H_

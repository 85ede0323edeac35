#ifndef STRATA_SERVER_COORDINATOR_TENANTS_QUEUE_RIGHTS_H_
#define STRATA_SERVER_COORDINATOR_TENANTS_QUEUE_RIGHTS_H_

#include <cstdint>

#include "absl/time/time.h"

namespace strata::server {

// What the cluster says now of a user's jobs that wait in its queue.
struct QueueRights {
  bool may_submit = true;
  bool may_run_programs = true;
  uint32_t slots = 0;  // ranks that the user's running jobs may have at once; 0: no limit
  // Jobs that were submitted until then are of one whose keys were revoked.
  absl::Time revoked_until = absl::InfinitePast();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TENANTS_QUEUE_RIGHTS_H_

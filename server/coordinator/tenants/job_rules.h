#ifndef STRATA_SERVER_COORDINATOR_TENANTS_JOB_RULES_H_
#define STRATA_SERVER_COORDINATOR_TENANTS_JOB_RULES_H_

#include <cstdint>

#include "absl/time/time.h"

namespace strata::server {

// What the cluster's policy says of how jobs protect what they send.
struct JobRules {
  bool has_keys = false;        // the cluster's members have certificates
  bool allows_plain = false;    // protection: PLAIN, with keys
  bool trusts_network = false;  // MPI and NCCL from host to host, with keys
};

// What the cluster says now of a user's jobs that wait in its queue.
struct QueueRights {
  bool may_submit = true;
  bool may_run_programs = true;
  uint32_t slots = 0;  // ranks that the user's running jobs may have at once; 0: no limit
  // Jobs that were submitted until then are of one whose keys were revoked.
  absl::Time revoked_until = absl::InfinitePast();
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TENANTS_JOB_RULES_H_

#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_JOB_PROTECTION_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_JOB_PROTECTION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata::server {

// The cluster's rules for the protection of its jobs.
struct ProtectionRules {
  // Members show certificates: jobs are encrypted unless they ask for something else.
  bool has_keys = false;
  // A job's secret reaches its daemons alone: there are keys, or only a socket of the user's.
  bool keeps_secrets = false;
  // With keys: jobs may ask for PLAIN.
  bool allows_plain = false;
  // With keys: what Strata cannot protect may pass between hosts.
  bool trusts_network = false;
};

// Fills in what a job that leaves its protection to the cluster gets, and checks what others ask
// for. Errors: InvalidArgument, with what to do.
absl::Status SettleProtection(const ProtectionRules& rules, proto::Job* job);

// Checks that traffic of a job's ranks without Strata may pass between hosts. Errors:
// InvalidArgument, with what to do.
absl::Status AllowForeignTraffic(const ProtectionRules& rules, const proto::Job& job);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_JOB_PROTECTION_H_

#ifndef STRATA_SERVER_COORDINATOR_PLACEMENT_JOB_PROTECTION_H_
#define STRATA_SERVER_COORDINATOR_PLACEMENT_JOB_PROTECTION_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata::server {

// The cluster's rules for the protection of its jobs.
struct ProtectionRules {
  // Members show certificates; jobs are encrypted unless they ask for something else.
  bool has_keys = false;
  // A job's secret reaches only its daemons: there are keys, or only a socket of the user.
  bool keeps_secrets = false;
  // With keys: jobs may ask for PLAIN.
  bool allows_plain = false;
  // With keys: traffic that Strata cannot protect may pass between hosts.
  bool trusts_network = false;
};

// Chooses the protection of a job that leaves it to the cluster, and checks explicit choices.
// Errors: InvalidArgument, with what to do.
absl::Status SettleProtection(const ProtectionRules& rules, proto::Job* job);

// Checks that traffic of a job's ranks that bypasses Strata may pass between hosts. Errors:
// InvalidArgument, with what to do.
absl::Status AllowForeignTraffic(const ProtectionRules& rules, const proto::Job& job);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_PLACEMENT_JOB_PROTECTION_H_

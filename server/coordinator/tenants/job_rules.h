#ifndef STRATA_SERVER_COORDINATOR_TENANTS_JOB_RULES_H_
#define STRATA_SERVER_COORDINATOR_TENANTS_JOB_RULES_H_

namespace strata::server {

// What the cluster's policy says of how jobs protect what they send.
struct JobRules {
  bool has_keys = false;        // the cluster's members have certificates
  bool allows_plain = false;    // protection: PLAIN, with keys
  bool trusts_network = false;  // MPI and NCCL from host to host, with keys
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_TENANTS_JOB_RULES_H_

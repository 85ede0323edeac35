#include "server/coordinator/placement/job_protection.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace strata::server {

absl::Status SettleProtection(const ProtectionRules& rules, proto::Job* job) {
  const std::string asked = proto::Job::Protection_Name(job->protection());
  switch (job->protection()) {
    case proto::Job::BY_CLUSTER:
      job->set_protection(rules.has_keys ? proto::Job::ENCRYPT : proto::Job::PLAIN);
      return absl::OkStatus();
    case proto::Job::ENCRYPT:
    case proto::Job::SIGN:
      if (rules.keeps_secrets) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("protection: ", asked,
                       " needs a cluster with keys, and this coordinator runs with --insecure"));
    case proto::Job::PLAIN:
      if (!rules.has_keys || rules.allows_plain) return absl::OkStatus();
      return absl::InvalidArgumentError(
          "protection: PLAIN is not allowed here: the cluster's policy has no `allow_plain: true`");
    default:
      return absl::InvalidArgumentError("protection: not one of ENCRYPT, SIGN and PLAIN");
  }
}

absl::Status AllowForeignTraffic(const ProtectionRules& rules, const proto::Job& job) {
  const bool is_protected =
      job.protection() == proto::Job::ENCRYPT || job.protection() == proto::Job::SIGN;
  if (!is_protected || rules.trusts_network || job.exchange() != proto::Job::NCCL) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "exchange: NCCL neither encrypts nor signs what it sends from host to host: let the job fit "
      "on one host, take exchange: PARAMETER_SERVER or RING, or let the cluster's policy say "
      "`trusted_network: true`");
}

}  // namespace strata::server

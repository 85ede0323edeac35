#include "common/job/check_replace.h"

#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

constexpr uint32_t kReplacedPerHourMax = 100'000;
constexpr uint32_t kPatienceSMax = 7 * 24 * 3600;

absl::Status CheckCopies(const proto::Job& job) {
  if (job.replicas() > 0 && job.exchange() != proto::Job::PARAMETER_SERVER) {
    return Refuse("replicas: belongs to exchange: PARAMETER_SERVER: others have no servers");
  }
  if (!proto::Job::Unprotected_IsValid(job.while_unprotected())) {
    return Refuse(absl::StrFormat("while_unprotected: %d is not one of GO_ON, WAIT",
                                  job.while_unprotected()));
  }
  if (job.while_unprotected() != proto::Job::GO_ON && job.replicas() == 0) {
    return Refuse(absl::StrFormat(
        "while_unprotected: %s needs replicas: 1: without second copies none can be waited for",
        proto::Job::Unprotected_Name(job.while_unprotected())));
  }
  return absl::OkStatus();
}

// What a node has of its own, which is lost with its processes.
absl::Status CheckNodesKeepNothing(const proto::Job& job) {
  const proto::Lazy& lazy = job.consistency().lazy();
  if (HasLocalSteps(job) || lazy.double_buffering()) {
    return Refuse(
        absl::StrFormat("replace: consistency: %s keeps weights on the nodes, which are lost with "
                        "a node that dies",
                        ModeName(job.consistency())));
  }
  if (job.optimizer().has_mean()) {
    return Refuse(
        "replace: optimizer.mean has the ranks keep the weights, which are lost with a node that "
        "dies");
  }
  if (!AppliesOnNodes(job)) return absl::OkStatus();
  return Refuse(
      absl::StrFormat("replace: %s has the nodes keep weights and optimizer state, which are lost "
                      "with a node that dies",
                      job.optimizer().has_lars() ? "optimizer.lars" : "optimizer.clip_norm"));
}

}  // namespace

absl::Status CheckReplace(const proto::Job& job) {
  if (absl::Status status = CheckCopies(job); !status.ok() || !job.has_replace()) return status;
  if (job.exchange() != proto::Job::PARAMETER_SERVER) {
    return Refuse(
        "replace: belongs to exchange: PARAMETER_SERVER: elsewhere the weights are lost with their "
        "node");
  }
  const proto::Replace& replace = job.replace();
  if (replace.per_hour() == 0) return Refuse("replace.per_hour: is required, and at least 1");
  return All({InRange("replace.per_hour", replace.per_hour(), 1, kReplacedPerHourMax),
              InRange("replace.patience_s", replace.patience_s(), 1, kPatienceSMax),
              CheckNodesKeepNothing(job)});
}

}  // namespace strata

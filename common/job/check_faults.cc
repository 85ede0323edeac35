#include "common/job/check_faults.h"

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

constexpr uint32_t kKeepMax = 1000;
constexpr uint32_t kAttemptsMax = 1000;
constexpr uint32_t kReplacedPerHourMax = 100'000;
constexpr uint32_t kPatienceSMax = 7 * 24 * 3600;
// What is shorter is not seen.
constexpr uint32_t kHangAfterSMin = 3;

// What nodes keep of answers is weights.
absl::Status CheckNodes(const proto::Job& job) {
  if (!job.consistency().lazy().double_buffering() || !IsEncoded(job.pull())) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat(
      "checkpoint: consistency: %s goes with pull.codec: FP32 only, not %s",
      ModeName(job.consistency()), proto::Encoding::Codec_Name(job.pull().codec())));
}

absl::Status CheckCheckpoint(const proto::Job& job) {
  if (!job.has_checkpoint()) {
    return job.has_restart() ? Refuse("restart: needs checkpoint, which a failed job goes on from")
                             : absl::OkStatus();
  }
  const proto::Checkpoint& checkpoint = job.checkpoint();
  if (checkpoint.dir().empty()) return Refuse("checkpoint.dir: is required");
  if (!absl::StartsWith(checkpoint.dir(), "/") && !absl::StartsWith(checkpoint.dir(), "s3://")) {
    return Refuse(
        absl::StrFormat("checkpoint.dir: \"%s\" is neither an absolute path nor s3://BUCKET/PREFIX",
                        checkpoint.dir()));
  }
  const absl::Status ranges =
      All({InRange("checkpoint.every_steps", checkpoint.every_steps(), 1, INT64_MAX),
           InRange("checkpoint.keep", checkpoint.keep(), 1, kKeepMax)});
  if (!ranges.ok()) return ranges;
  if (absl::Status status = CheckNodes(job); !status.ok()) return status;
  if (!job.has_restart()) return absl::OkStatus();
  if (job.exchange() == proto::Job::MPI) {
    return Refuse(
        "restart: a job with exchange: MPI is started by mpirun; start it again with --resume");
  }
  return All({InRange("restart.attempts", job.restart().attempts(), 1, kAttemptsMax),
              Positive("restart.within_hours", job.restart().within_hours())});
}

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

absl::Status CheckHangAfter(uint32_t seconds) {
  if (seconds == 0 || (seconds >= kHangAfterSMin && seconds <= kPatienceSMax)) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat("replace.hang_after_s: %d is neither 0 nor in %d to %d", seconds,
                                kHangAfterSMin, kPatienceSMax));
}

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
              CheckHangAfter(replace.hang_after_s()), CheckNodesKeepNothing(job)});
}

}  // namespace

absl::Status CheckFaults(const proto::Job& job) {
  return All({CheckCheckpoint(job), CheckReplace(job)});
}

}  // namespace strata

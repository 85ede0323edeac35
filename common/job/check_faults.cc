#include "common/job/check_faults.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "common/job/number_check.h"
#include "common/job/zoo/zoo.h"

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

// What a node has of its own, which another process in its place, or one that comes, does not have.
// `field` asks for such processes, and `lost` says how it is lost.
absl::Status CheckNodesKeepNothing(const proto::Job& job, const char* field, const char* lost) {
  const proto::Lazy& lazy = job.consistency().lazy();
  if (HasLocalSteps(job) || lazy.double_buffering()) {
    return Refuse(absl::StrFormat("%s: consistency: %s keeps weights on the nodes, which %s", field,
                                  ModeName(job.consistency()), lost));
  }
  // What all nodes have alike, those that are left have.
  if (DropsLost(job)) return absl::OkStatus();
  if (job.optimizer().has_mean()) {
    return Refuse(absl::StrFormat("%s: optimizer.mean has the ranks keep the weights, which %s",
                                  field, lost));
  }
  if (!AppliesOnNodes(job)) return absl::OkStatus();
  return Refuse(
      absl::StrFormat("%s: %s has the nodes keep weights and optimizer state, which %s", field,
                      job.optimizer().has_lars() ? "optimizer.lars" : "optimizer.clip_norm", lost));
}

// Whether all nodes begin each round of local steps with the weights that servers have, so that
// only the state of its optimizer is lost with a node.
bool BeginsRoundsAlike(const proto::Job& job) {
  return NodesMakeLocalSteps(job) && IsInStep(job.consistency()) &&
         !job.consistency().lazy().has_significance();
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
              CheckHangAfter(replace.hang_after_s()),
              BeginsRoundsAlike(job)
                  ? absl::OkStatus()
                  : CheckNodesKeepNothing(job, "replace", "are lost with a node that dies")});
}

// Nodes are laid out once, so that each has as many ranks.
absl::Status CheckWholeNodes(const proto::Job& job) {
  if (job.ranks_per_node() == 0) {
    return Refuse(
        "ranks_per_node: is required where nodes may join and leave (ranks_min, ranks_max)");
  }
  for (const auto& [field, ranks] :
       {std::pair("ranks", job.ranks()), std::pair("ranks_min", job.ranks_min()),
        std::pair("ranks_max", job.ranks_max())}) {
    if (ranks % job.ranks_per_node() == 0) continue;
    return Refuse(absl::StrFormat(
        "%s: %d is not a multiple of ranks_per_node: %d, as it is where nodes may join and leave",
        field, ranks, job.ranks_per_node()));
  }
  return absl::OkStatus();
}

// What a rank of a model of the zoo has of its own; a program says when it starts whether its ranks
// do. `field` lets nodes come and go.
absl::Status CheckRanksKeepNothing(const proto::Job& job, const char* field) {
  if (!job.has_model()) return absl::OkStatus();
  const bool has_statistics =
      job.model().batch_norm() == proto::Model::RUNNING && HasBatchNorm(job.model().zoo());
  if (has_statistics && !DropsLost(job)) {
    return Refuse(absl::StrFormat(
        "%s: model.batch_norm: RUNNING has each rank of %s keep statistics of its own, which a "
        "node that joins does not have; LAST_BATCH exchanges them",
        field, job.model().zoo()));
  }
  if (job.evaluation().deferred()) {
    return Refuse(
        absl::StrFormat("%s: evaluation.deferred has a rank keep copies of the weights until "
                        "training is over, which leave the job with its node",
                        field));
  }
  return absl::OkStatus();
}

absl::Status CheckOnLoss(const proto::Job& job) {
  if (!proto::Job::OnLoss_IsValid(job.on_loss())) {
    return Refuse(absl::StrFormat("on_loss: %d is not one of FAIL, DROP", job.on_loss()));
  }
  if (!DropsLost(job)) return absl::OkStatus();
  if (job.exchange() != proto::Job::RING && job.exchange() != proto::Job::NCCL) {
    return Refuse(
        "on_loss: DROP belongs to exchange: RING or NCCL: servers have nodes that die begun again "
        "(replace)");
  }
  if (job.ranks_per_node() == 0) return Refuse("ranks_per_node: is required with on_loss: DROP");
  if (!job.consistency().has_sync()) {
    return Refuse(absl::StrFormat("on_loss: DROP needs consistency: sync, not %s",
                                  ModeName(job.consistency())));
  }
  if (IsEncoded(job.push())) {
    return Refuse(
        "on_loss: DROP goes with push.codec: FP32 only: what codecs leave out is lost with a node");
  }
  if (job.has_checkpoint()) {
    return Refuse("on_loss: DROP goes without checkpoint: the job lasts as long as one node does");
  }
  if (job.ranks_max() > job.ranks()) {
    return Refuse(absl::StrFormat("ranks_max: %d is above ranks: %d: no node joins a ring",
                                  job.ranks_max(), job.ranks()));
  }
  return absl::OkStatus();
}

absl::Status CheckElastic(const proto::Job& job) {
  if (!IsElastic(job)) return absl::OkStatus();
  if (job.ranks_min() > job.ranks()) {
    return Refuse(
        absl::StrFormat("ranks_min: %d is above ranks: %d", job.ranks_min(), job.ranks()));
  }
  if (job.ranks_max() < job.ranks()) {
    return Refuse(
        absl::StrFormat("ranks_max: %d is below ranks: %d", job.ranks_max(), job.ranks()));
  }
  // Both are there once defaults are; where they say the same, either may have been meant.
  const char* const field = DropsLost(job)                   ? "on_loss"
                            : job.ranks_max() == job.ranks() ? "ranks_min"
                                                             : "ranks_max";
  if (job.exchange() != proto::Job::PARAMETER_SERVER && !DropsLost(job)) {
    return Refuse(
        absl::StrFormat("%s: belongs to exchange: PARAMETER_SERVER: elsewhere nodes neither join "
                        "nor leave a job that trains, unless on_loss: DROP drops those that die",
                        field));
  }
  return All({InRange(field, job.ranks_max(), 1, kRanksMax), CheckWholeNodes(job),
              CheckNodesKeepNothing(job, field, "a node that joins does not have"),
              CheckRanksKeepNothing(job, field)});
}

}  // namespace

absl::Status CheckFaults(const proto::Job& job) {
  return All({CheckCheckpoint(job), CheckReplace(job), CheckOnLoss(job), CheckElastic(job)});
}

}  // namespace strata

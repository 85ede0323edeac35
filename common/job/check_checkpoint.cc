#include "common/job/check_checkpoint.h"

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/job/number_check.h"

namespace strata {
namespace {

constexpr uint32_t kKeepMax = 1000;
constexpr uint32_t kAttemptsMax = 1000;

// What nodes keep of answers is weights.
absl::Status CheckNodes(const proto::Job& job) {
  if (!job.consistency().lazy().double_buffering() || !IsEncoded(job.pull())) {
    return absl::OkStatus();
  }
  return Refuse(absl::StrFormat(
      "checkpoint: consistency: %s goes with pull.codec: FP32 only, not %s",
      ModeName(job.consistency()), proto::Encoding::Codec_Name(job.pull().codec())));
}

}  // namespace

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

}  // namespace strata

#ifndef STRATA_COMMON_JOB_JOB_H_
#define STRATA_COMMON_JOB_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/optimizer.h"
#include "proto/job.pb.h"

namespace strata {

// The version of the control plane's messages, of HELLO and of messages between processes of a
// node. All processes of a job have the same one.
inline constexpr uint32_t kProtocolVersion = 6;
// The oldest version that a coordinator accepts from daemons and commands; others are refused by
// name.
inline constexpr uint32_t kProtocolVersionOldest = 4;

// The maximum number of ranks of a job.
inline constexpr uint32_t kRanksMax = 1024;

// Parses protobuf text. `source` names it in errors ("job.textproto:3:5: ..."). Errors:
// InvalidArgument, one line: place, field and what is wrong.
absl::StatusOr<proto::Job> ParseJob(const std::string& text, const std::string& source);

// Returns the job as protobuf text, including zero values; ParseJob can read it.
std::string JobToText(const proto::Job& job);

// Applies "path=value" settings ("schedule.base_lr=0.1", "consistency.lazy.staleness=3",
// "consistency.sync={}", "debug.delays={node: 1 delay_ms: 20}" which adds to a repeated field) in
// order. Setting one member of a oneof clears the others; a preset is replaced by its settings.
// Errors: InvalidArgument naming the setting.
absl::Status ApplySettings(const std::vector<std::string>& settings, proto::Job* job);

// Writes every default of job.proto into the fields that are absent (not chunk_elements and
// run_dir, which are chosen later). Idempotent.
void FillDefaults(proto::Job* job);

// Checks a job with defaults filled in. Errors: InvalidArgument naming field, value and what is
// allowed.
absl::Status ValidateJob(const proto::Job& job);

// Returns whether nodes may join the job, or leave it, while it trains.
inline bool IsElastic(const proto::Job& job) { return job.ranks_min() > 0 || job.ranks_max() > 0; }
// Returns whether the nodes of an all-reduce continue without one that dies. Such a job is elastic,
// too, once its defaults are filled in.
inline bool DropsLost(const proto::Job& job) { return job.on_loss() == proto::Job::DROP; }

// The job's defaults are filled in.
OptimizerParams MakeOptimizerParams(const proto::Optimizer& optimizer);

// Returns the number of samples of each rank in a step; 0: every rank gives it in each step.
uint32_t SamplesPerRank(const proto::Job& job);

// Returns how many bytes of rows a node may push in a step: RowBytes of all.
uint64_t RowBytesPerStep(const proto::Job& job);
inline constexpr uint32_t kRowsLookaheadMax = 16;
// Returns how many steps ahead rows are fetched, at least 1.
uint32_t RowsLookahead(const proto::Job& job);
// Returns how consistent nodes stay in rows.
const proto::Consistency& RowsConsistency(const proto::Job& job);
// Returns the bytes of ids and gradients of so many rows.
constexpr uint64_t RowBytes(uint64_t rows, uint32_t columns) {
  return rows * (sizeof(uint64_t) + sizeof(float) * columns);
}

// Returns the job's schedule with linear scaling (base_batch) applied.
proto::Schedule JobSchedule(const proto::Job& job);

// RMSprop warm-up's a and b in epoch `epoch`, at its learning rate `lr`; formulas in
// proto/job.proto.
struct RmspropShares {
  double sgd = 1, rms = 0;
};
RmspropShares RmspropSharesAt(const OptimizerParams& params, double epoch, double lr);

// Returns the learning rate once `samples` have been applied; `samples_per_epoch` > 0 unless the
// schedule has neither warm-up nor shape; `epochs` is the job's. Computed in double, the same on
// every host. Warm-up's first update has the rate after one batch: pass the samples applied
// *including* the current update.
double LearningRateAt(const proto::Schedule& schedule, uint64_t samples, uint64_t samples_per_epoch,
                      uint32_t epochs);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_JOB_H_

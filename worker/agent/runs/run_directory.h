#ifndef STRATA_WORKER_AGENT_RUNS_RUN_DIRECTORY_H_
#define STRATA_WORKER_AGENT_RUNS_RUN_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Returns where a job's outputs go on this node, absolute: RUNS/NAME-ID, or the job's run_dir, of
// which one that is relative lies in RUNS.
std::string ChooseRunDirectory(const proto::JobRecord& record, const std::string& runs_dir);

// Whether it lies below RUNS, also by way of the links that are there. Else whoever may submit a
// job could have files written and removed wherever this user may. Errors: InvalidArgument.
absl::Status CheckRunDirectory(const std::string& run_dir, const std::string& runs_dir);

// Who may read what jobs write: this user alone, or whom the umask lets.
enum class RunAccess { kOwn, kByUmask };

// Makes the directory and its logs/, claims it for the job (see run_directory_lock.h) and removes
// what a node of an earlier job of the same path left there under the names that this node will
// write, and all logs of such a job. Of an earlier attempt of the same job logs stay, and metrics
// of the steps before the one that it goes on with. The node of rank 0 also writes job.textproto,
// and, where a job goes on without nodes that die, so does each. Returns the claim: keep it for as
// long as the node writes there. Errors: name the directory or file and the reason; Unavailable:
// another job writes there, names it. With an `incarnation` of the node after the first, what the
// job itself has written there stays, too.
absl::StatusOr<UniqueFd> PrepareRunDirectory(const std::string& run_dir,
                                             const proto::JobRecord& record, uint32_t node,
                                             bool holds_rank_0, RunAccess access = RunAccess::kOwn,
                                             uint32_t incarnation = 1);

std::string AggregatorLog(const std::string& run_dir, uint32_t node);
std::string RankLog(const std::string& run_dir, uint32_t rank);
std::string MetricsFile(const std::string& run_dir);

// What lines of metrics.jsonl say.
struct MetricsWritten {
  uint64_t step = 0;           // the newest
  uint64_t measured_step = 0;  // that of late measurements
  bool final = false;
};

// Removes lines of steps after `step`, and one that was cut short. Returns what the others say.
// Errors: name the file.
absl::StatusOr<MetricsWritten> KeepMetricsUpTo(uint64_t step, const std::string& path);

// Appends one line. Errors: name the file.
absl::Status AppendLine(const std::string& path, const std::string& line);

// The last line of a log that may tell why its process ended, cut to 400 bytes: not a blank one,
// and not one of ours that only informs. Empty where there is none.
std::string LastLine(const std::string& path);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_RUNS_RUN_DIRECTORY_H_

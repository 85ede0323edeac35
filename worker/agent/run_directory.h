#ifndef STRATA_WORKER_AGENT_RUN_DIRECTORY_H_
#define STRATA_WORKER_AGENT_RUN_DIRECTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Returns the absolute directory for a job's outputs on this node: RUNS/NAME-ID, or the job's
// run_dir, relative to RUNS.
std::string ChooseRunDirectory(const proto::JobRecord& record, const std::string& runs_dir);

// Checks that it is below RUNS, with existing links resolved. Otherwise anybody who may submit a
// job could have files written and removed wherever this user may. Errors: InvalidArgument.
absl::Status CheckRunDirectory(const std::string& run_dir, const std::string& runs_dir);

// Who may read jobs' files: this user only, or whoever the umask permits.
enum class RunAccess { kOwn, kByUmask };

// Makes the directory and its logs/, claims it for the job (LockRunDirectory), and removes files
// that a node of an earlier job of the same path left there under the names that this node will
// write, and all logs of such a job. Of an earlier attempt of the same job, logs stay, and metrics
// of the steps before the one that it continues with. The node of rank 0 also writes job.textproto;
// if the job continues without nodes that die, every node does. Returns the claim: keep it while
// the node writes there. Errors name the directory or file and the reason; Unavailable: another job
// writes there, which is named. With an `incarnation` of the node after the first, files written by
// the job itself stay, too.
absl::StatusOr<UniqueFd> PrepareRunDirectory(const std::string& run_dir,
                                             const proto::JobRecord& record, uint32_t node,
                                             bool holds_rank_0, RunAccess access = RunAccess::kOwn,
                                             uint32_t incarnation = 1);

std::string AggregatorLog(const std::string& run_dir, uint32_t node);
std::string RankLog(const std::string& run_dir, uint32_t rank);
std::string MetricsFile(const std::string& run_dir);

// A summary of the lines of metrics.jsonl.
struct MetricsWritten {
  uint64_t step = 0;           // the newest
  uint64_t measured_step = 0;  // the newest step of late measurements
  bool final = false;
  std::vector<std::string> measurements;  // lines of late measurements, in order
};

// Returns the last step whose line of metrics.jsonl stays if the job resumes from a checkpoint:
// lines count the program's steps, the record the job's.
uint64_t ResumedMetricsStep(const proto::JobRecord& record);
// Removes lines of steps after `step`, and a truncated one. Returns a summary of the others. Errors
// name the file.
absl::StatusOr<MetricsWritten> KeepMetricsUpTo(uint64_t step, const std::string& path);

// Appends one line. Errors name the file.
absl::Status AppendLine(const std::string& path, const std::string& line);

// Returns the last line of a log that may tell why its process exited, truncated to 400 bytes:
// neither a blank one, nor one of ours at info level. Empty if there is none.
std::string LastLine(const std::string& path);

// Claims a run directory for one job: all nodes of the job hold it together, on one host or on
// several that share the file system, and no other job gets it meanwhile. Held until the descriptor
// is closed, at the latest by the kernel when the process exits.
//
// The lock is flock's on the file `.lock`, whose one line names the job that has or last had it. It
// is exclusive while the line is written, then shared. The file stays: removing it would let two
// jobs hold locks on two files of one name.
//
// `was_its_own`, unless null: whether the last job that had it was this one.
//
// Logs of another job that had the directory are removed: users who may see this job's may not see
// those.
//
// Never blocks. Errors: Unavailable (another job has it; names directory and job), otherwise those
// of the file system, naming the file.
absl::StatusOr<UniqueFd> LockRunDirectory(const std::string& run_dir,
                                          const proto::JobRecord& record,
                                          bool* was_its_own = nullptr);

// Removes the logs of the job that had the run directory. Returns false, and removes nothing, while
// a job has it, or if none ever had.
bool RemoveLogsIfUnused(const std::string& run_dir);

// Returns the bytes of the logs in a run directory.
uint64_t LogBytesIn(const std::string& run_dir);

// Returns the number of the job that has or last had a run directory; nullopt: it is not one.
std::optional<uint32_t> LastJobIn(const std::string& run_dir);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_RUN_DIRECTORY_H_

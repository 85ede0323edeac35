#ifndef STRATA_WORKER_AGENT_RUNS_RUN_DIRECTORY_LOCK_H_
#define STRATA_WORKER_AGENT_RUNS_RUN_DIRECTORY_LOCK_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Claims a run directory for one job: all nodes of the job hold it together, on one host or on
// several that share the file system, and no other job gets it meanwhile. Held until the descriptor
// is closed, at the latest by the kernel when the process ends.
//
// The lock is flock's on the file `.lock`, whose one line says which job has or last had it. It is
// exclusive while the line is written, then shared. The file stays: to remove it would let two jobs
// hold locks on two files of one name.
//
// `was_its_own`, unless null: whether the last job that had it was this one.
//
// Logs of another job that had the directory are removed: who may see this job's may not see those.
//
// Never blocks. Errors: Unavailable (another job has it; names directory and job), else those of
// the file system, naming the file.
absl::StatusOr<UniqueFd> LockRunDirectory(const std::string& run_dir,
                                          const proto::JobRecord& record,
                                          bool* was_its_own = nullptr);

// The number of the job that has or last had a run directory; nullopt: it is none.
std::optional<uint32_t> LastJobIn(const std::string& run_dir);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_RUNS_RUN_DIRECTORY_LOCK_H_

#ifndef STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_WORK_H_
#define STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_WORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/store.h"
#include "common/ids.h"
#include "proto/record.pb.h"
#include "server/coordinator/jobs/checkpoint_ledger.h"

namespace strata::server {

// The coordinator's work in the stores of jobs. Blocks for as long as the store does.

// Returns the canonical name of a folder: "/a//b/" becomes "/a/b". Anything that is not a path,
// such as a bucket, only loses its trailing slashes.
std::string NormalFolder(const std::string& dir);

// The jobs whose id and name may appear in an error.
struct NamedJobs {
  bool all_but = true;             // all but `listed`, also of other clusters; otherwise only those
  std::set<uint32_t> listed = {};  // of this cluster

  bool Has(uint32_t job, bool of_this_cluster) const {
    return (of_this_cluster && listed.count(job) > 0) != all_but;
  }
};

// A job that starts, and may resume from a checkpoint.
struct CheckpointQuery {
  uint32_t job = 0;
  uint64_t cluster = 0;    // as in job records
  std::string own_dir;     // the folder that it writes to; empty: none
  std::string resume_dir;  // the folder that it resumes from; empty: none
  uint64_t below = 0;      // ignore checkpoints of this clock or later; 0: ignore none
  bool or_begin = false;   // without a checkpoint, the job starts from its first step
  NamedJobs named = {};
};
struct CheckpointFound {
  Manifest manifest;
  proto::JobRecord record;               // the record of the job that wrote it
  std::vector<std::string> passed_over;  // newer checkpoints, and why they were skipped
};

// Finds the newest complete checkpoint that a job may resume from; without a resume_dir, none,
// which is not an error. If the job writes to the same folder, newer checkpoints are deleted,
// because it will write them again: complete ones once their objects have been read and found
// damaged, and those with a torn manifest. Nothing is deleted if the job can neither resume nor
// start from its first step. Objects of other jobs are not read. Errors: NotFound: there is none;
// InvalidArgument: own_dir has checkpoints of another job, which is named if permitted; Aborted: a
// checkpoint that was to be skipped as damaged is whole; those of the store, also when it cannot
// read a manifest that may be the newest.
absl::StatusOr<CheckpointFound> FindCheckpoint(const CheckpointQuery& query,
                                               const StoreOpener& open);

// A checkpoint whose objects have all been written.
struct CheckpointToKeep {
  std::string dir;
  Manifest manifest;
  uint32_t keep = 1;  // checkpoints to keep, including this one; older ones are deleted
};
// Describes a job's checkpoint, which is whole now. `record` is the serialized JobRecord.
CheckpointToKeep MakeCheckpointToKeep(JobId id, const proto::Job& job, const std::string& record,
                                      const CheckpointLedger::Whole& whole, absl::Time now);
// Writes the manifest, unless an object is missing: servers may see another folder under that name.
// A manifest of the same job and objects counts as this one: a previous coordinator wrote it.
// Errors: FailedPrecondition (naming the object); OutOfRange: an object is missing, but a later
// checkpoint of the job is complete, and completing it deletes earlier ones; those of the store.
// Failures to delete are not errors; `deleting` reports them.
absl::Status KeepCheckpoint(const CheckpointToKeep& checkpoint, const StoreOpener& open,
                            absl::Status* deleting);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_WORK_H_

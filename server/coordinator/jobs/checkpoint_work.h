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

// The coordinator's work in the stores of jobs. It blocks for as long as a store does.

// Returns the one name of a folder: of "/a//b/" it is "/a/b". What is no path, as a bucket, loses
// its slashes at the end.
std::string NormalFolder(const std::string& dir);

// The jobs whose id and name an error may tell its reader.
struct NamedJobs {
  bool all_but = true;             // all but `listed`, also of other clusters; else those alone
  std::set<uint32_t> listed = {};  // of this cluster

  bool Has(uint32_t job, bool of_this_cluster) const {
    return (of_this_cluster && listed.count(job) > 0) != all_but;
  }
};

// A job that starts, and may resume from a checkpoint.
struct CheckpointQuery {
  uint32_t job = 0;
  uint64_t cluster = 0;    // as in job records
  std::string own_dir;     // that it writes to; empty: none
  std::string resume_dir;  // that it resumes from; empty: none
  uint64_t below = 0;      // checkpoints of this clock or later are of no use; 0: all may be
  bool or_begin = false;   // without one, the job starts from its first step
  NamedJobs named = {};
};
struct CheckpointFound {
  Manifest manifest;
  proto::JobRecord record;               // its job's
  std::vector<std::string> passed_over;  // newer ones, and why they were not taken
};

// Finds the newest complete checkpoint that a job may resume from. Where the job writes to the same
// folder, newer ones are deleted, for it will make them again: complete ones once their objects
// have been read and found to be damaged, and those with a manifest that is torn. A job that can
// neither go on nor begin leaves all as it is. Objects of others are not read. With no resume_dir
// it finds none, which is no error. Errors: NotFound: there is none; InvalidArgument: own_dir has
// checkpoints of another job, which is named if it may be; Aborted: one that was to be passed over
// is whole; those of the store, also where it does not give one manifest that may be the newest.
absl::StatusOr<CheckpointFound> FindCheckpoint(const CheckpointQuery& query,
                                               const StoreOpener& open);

// A checkpoint whose objects have all been written.
struct CheckpointToKeep {
  std::string dir;
  Manifest manifest;
  uint32_t keep = 1;  // this one and older ones; others are deleted
};
// Returns the checkpoint that is whole now, of a job with this id and job; `record` is its
// JobRecord, serialized.
CheckpointToKeep MakeCheckpointToKeep(JobId id, const proto::Job& job, const std::string& record,
                                      const CheckpointLedger::Whole& whole, absl::Time now);
// Writes the manifest, unless an object is not there: servers may see another folder under that
// name. One that is there of the same job and the same objects is this one: a coordinator before
// this one has written it. Errors: FailedPrecondition (naming the object); OutOfRange: an object
// is not there, but a later checkpoint of the job is complete, for which earlier ones are deleted;
// those of the store. What cannot be deleted is no error, but is said in `deleting`.
absl::Status KeepCheckpoint(const CheckpointToKeep& checkpoint, const StoreOpener& open,
                            absl::Status* deleting);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_CHECKPOINT_WORK_H_

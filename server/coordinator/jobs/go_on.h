#ifndef STRATA_SERVER_COORDINATOR_JOBS_GO_ON_H_
#define STRATA_SERVER_COORDINATOR_JOBS_GO_ON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/checkpoint/manifest.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"

namespace strata::server {

// Returns the record of the job that wrote a checkpoint. Errors: DataLoss: the manifest does not
// hold one.
absl::StatusOr<proto::JobRecord> RecordOf(const Manifest& manifest);

// Checks that a job, with its defaults filled in, can resume from a checkpoint of a job with that
// record. Training length, learning rates, placement and reporting may differ. Errors:
// InvalidArgument naming the field and both values.
absl::Status CheckContinues(const proto::Job& job, const proto::JobRecord& from);
// Checks the same for what the nodes have reported since: tensors, samples per epoch, the program's
// optimizer.
absl::Status CheckContinues(const proto::JobRecord& record, const proto::JobRecord& from);

// Returns what servers need to know of the checkpoint. Errors: DataLoss: a chunk is in no object.
absl::StatusOr<proto::Resume> MakeResume(const std::string& dir, const Manifest& manifest,
                                         const proto::JobRecord& from);

// Returns whether a job that fails now, running or waiting to resume, may resume by itself: it asks
// for that, it is believed to be startable (it has trained before, or a process or daemon died),
// and it has not failed too often lately.
bool MayContinue(const proto::Job& job, const proto::JobStatus& status, bool can_start,
                 absl::Time now);

// Returns the delay before the job resumes. It grows with the number of failures since the last
// checkpoint.
absl::Duration DelayBeforeGoingOn(const proto::JobStatus& status);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_GO_ON_H_

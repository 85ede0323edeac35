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

// Returns the record of the job that wrote a checkpoint. Errors: DataLoss: it is none.
absl::StatusOr<proto::JobRecord> RecordOf(const Manifest& manifest);

// Checks that a job, with its defaults filled in, can resume from what a job with such a record
// wrote. How long it trains, its learning rates, where it runs and what it reports may differ.
// Errors: InvalidArgument naming the field and both values.
absl::Status CheckContinues(const proto::Job& job, const proto::JobRecord& from);
// The same for what the job's nodes have said since: tensors, samples of an epoch, the program's
// optimizer.
absl::Status CheckContinues(const proto::JobRecord& record, const proto::JobRecord& from);

// Returns what servers are told of the checkpoint. Errors: DataLoss: a chunk is in no object.
absl::StatusOr<proto::Resume> MakeResume(const std::string& dir, const Manifest& manifest,
                                         const proto::JobRecord& from);

// Returns true if a job that fails now, while it runs or waits to resume, resumes by itself: it
// asks for that, can be started as far as is known (it has trained before, or a process or a daemon
// died), and has not failed too often lately.
bool MayContinue(const proto::Job& job, const proto::JobStatus& status, bool can_start,
                 absl::Time now);

// Returns how long it is left alone before: the longer, the more often it has failed without a
// checkpoint in between.
absl::Duration DelayBeforeGoingOn(const proto::JobStatus& status);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_GO_ON_H_

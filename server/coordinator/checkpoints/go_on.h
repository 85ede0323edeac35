#ifndef STRATA_SERVER_COORDINATOR_CHECKPOINTS_GO_ON_H_
#define STRATA_SERVER_COORDINATOR_CHECKPOINTS_GO_ON_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"

namespace strata::server {

// Returns the record of the job that wrote a checkpoint. Errors: DataLoss: it is none.
absl::StatusOr<proto::JobRecord> RecordOf(const Manifest& manifest);

// Whether a job, with its defaults filled in, can go on from what a job with such a record wrote.
// How long it trains, its learning rates, where it runs and what it reports may differ. Errors:
// InvalidArgument naming the field and both values.
absl::Status CheckGoesOn(const proto::Job& job, const proto::JobRecord& from);
// The same for what the job's nodes have said since: tensors, samples of an epoch, the program's
// optimizer.
absl::Status CheckGoesOn(const proto::JobRecord& record, const proto::JobRecord& from);

// Returns what servers are told of the checkpoint. Errors: DataLoss: a chunk is in no object.
absl::StatusOr<proto::Resume> MakeResume(const std::string& dir, const Manifest& manifest,
                                         const proto::JobRecord& from);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_CHECKPOINTS_GO_ON_H_

#ifndef STRATA_SERVER_COORDINATOR_ACCESS_SUBMISSION_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_SUBMISSION_H_

#include "absl/status/status.h"
#include "proto/control.pb.h"
#include "server/coordinator/access/caller.h"

namespace strata::server {

// Whether the caller's rights allow a job, past Allow: a program, as many ranks, and the paths that
// it names. Errors: PermissionDenied in one line, which names the field.
absl::Status CheckSubmission(const Caller& caller, const proto::SubmitRequest& request);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_SUBMISSION_H_

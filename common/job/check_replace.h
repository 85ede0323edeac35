#ifndef STRATA_COMMON_JOB_CHECK_REPLACE_H_
#define STRATA_COMMON_JOB_CHECK_REPLACE_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata {

// A part of ValidateJob: `replicas`, `while_unprotected` and `replace`, and what does not go with
// them. The job's defaults are filled in. Errors: InvalidArgument, one line that names the field.
absl::Status CheckReplace(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CHECK_REPLACE_H_

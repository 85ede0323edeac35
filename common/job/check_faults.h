#ifndef STRATA_COMMON_JOB_CHECK_FAULTS_H_
#define STRATA_COMMON_JOB_CHECK_FAULTS_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata {

// A part of ValidateJob: what a job has against deaths (`checkpoint`, `restart`, `replicas`,
// `while_unprotected`, `replace`), whether nodes may join and leave it (`ranks_min`, `ranks_max`,
// `on_loss`), and what does not go with that. The job's defaults are filled in.
// Errors: InvalidArgument, one line that names the field.
absl::Status CheckFaults(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CHECK_FAULTS_H_

#ifndef STRATA_COMMON_JOB_CHECK_DEVICE_H_
#define STRATA_COMMON_JOB_CHECK_DEVICE_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata {

// A part of ValidateJob: what ranks compute on, and what needs GPUs. Errors: InvalidArgument, one
// line.
absl::Status CheckDevice(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CHECK_DEVICE_H_

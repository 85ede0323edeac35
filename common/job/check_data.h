#ifndef STRATA_COMMON_JOB_CHECK_DATA_H_
#define STRATA_COMMON_JOB_CHECK_DATA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata {

// The most samples of a rank in a step.
inline constexpr uint32_t kBatchMax = 65536;

// A part of ValidateJob: the data, that an epoch holds a batch of it, and that the model takes its
// images, each where the job alone tells. Defaults are filled in. Errors: InvalidArgument, one
// line.
absl::Status CheckData(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CHECK_DATA_H_

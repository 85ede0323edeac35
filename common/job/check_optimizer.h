#ifndef STRATA_COMMON_JOB_CHECK_OPTIMIZER_H_
#define STRATA_COMMON_JOB_CHECK_OPTIMIZER_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace strata {

// Parts of ValidateJob; defaults are filled in. Errors: InvalidArgument, one line that names the
// field.
absl::Status CheckOptimizer(const proto::Optimizer& optimizer);
// Optimizers that do not go with every schedule, mode or exchange.
absl::Status CheckRecipe(const proto::Job& job);
// Model.batch_norm, which does not go with every mode and encoding.
absl::Status CheckBatchNorm(const proto::Job& job);

}  // namespace strata

#endif  // STRATA_COMMON_JOB_CHECK_OPTIMIZER_H_

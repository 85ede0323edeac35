#ifndef STRATA_WORKER_CLIENT_C_CONVERT_H_
#define STRATA_WORKER_CLIENT_C_CONVERT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/client/c/strata_client.h"

namespace strata::client {

// Writes `values` times `scale` to `to`, one per element. Errors, after which `to` is unspecified:
// InvalidArgument: no such dtype, or, by its index, the first value that is NaN, infinite or too
// large for fp32.
absl::Status ToFloats(const void* values, strata_dtype dtype, double scale, absl::Span<float> to);
// Writes `from` in the given type, rounded to nearest, ties to even, infinite if a value is too
// large. Errors: InvalidArgument: no such dtype.
absl::Status FromFloats(absl::Span<const float> from, strata_dtype dtype, void* to);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_CONVERT_H_

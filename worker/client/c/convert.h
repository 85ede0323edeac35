#ifndef STRATA_WORKER_CLIENT_C_CONVERT_H_
#define STRATA_WORKER_CLIENT_C_CONVERT_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/client/c/strata_client.h"

namespace strata::client {

// Writes as many `values` times `scale` to `to`. Errors: InvalidArgument: no such dtype, or the
// first value that is NaN, infinite or too large for fp32, by its index; `to` holds nothing in
// particular then.
absl::Status ToFloats(const void* values, strata_dtype dtype, double scale, absl::Span<float> to);
// Writes `from` to as many values, rounded to nearest, ties to even, infinite where a
// value is too large. Errors: InvalidArgument: no such dtype.
absl::Status FromFloats(absl::Span<const float> from, strata_dtype dtype, void* to);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_C_CONVERT_H_

#ifndef STRATA_BENCH_TRAIN_WINDOWS_H_
#define STRATA_BENCH_TRAIN_WINDOWS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::bench {

// The samples per second of each window of a job's metrics.jsonl, the first one, in which
// everything warms up, and the final record left out. Errors: InvalidArgument (a line that is no
// record), FailedPrecondition (no window is left).
absl::StatusOr<std::vector<double>> RatesOf(const std::string& metrics);

}  // namespace strata::bench

#endif  // STRATA_BENCH_TRAIN_WINDOWS_H_

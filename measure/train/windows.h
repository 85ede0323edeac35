#ifndef STRATA_MEASURE_TRAIN_WINDOWS_H_
#define STRATA_MEASURE_TRAIN_WINDOWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::bench {

// What a job's metrics.jsonl says of its windows of steps.
struct Windows {
  // Samples per second of each, the first one, in which everything warms up, left out.
  std::vector<double> rates;
  uint64_t samples = 0;            // of all ranks, in the end
  bool has_finite_losses = false;  // of all windows
};

// Errors: InvalidArgument (a line that is no record), FailedPrecondition (no window is left).
absl::StatusOr<Windows> ParseWindows(const std::string& metrics);

}  // namespace strata::bench

#endif  // STRATA_MEASURE_TRAIN_WINDOWS_H_

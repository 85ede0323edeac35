#ifndef STRATA_CLI_BENCH_TRAIN_JOBS_H_
#define STRATA_CLI_BENCH_TRAIN_JOBS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/bench/train_case.h"

namespace strata::cli {

// The windows of steps in a job's metrics.jsonl.
struct Windows {
  // Samples per second of each except the first one, which warms up.
  std::vector<double> rates;
  uint64_t samples = 0;            // of all ranks, finally
  bool has_finite_losses = false;  // of all windows
};

// Errors: InvalidArgument (a line that is not a record), FailedPrecondition (no window is left).
absl::StatusOr<Windows> ParseWindows(const std::string& metrics);

// The result of one run of a case.
struct Trained {
  std::vector<double> rates;  // images per second of all ranks together, by window
  double median_rate = 0;
  uint64_t samples = 0;      // of all ranks, finally
  bool is_finite = true;     // the losses of all windows are
  uint64_t weights_sum = 0;  // XXH3-64 of the first job's saved model
};

// Runs a case: `binary` trains in a cluster of its own, for "none" in one per rank. Blocks until
// all have ended; no process and no file is left. Errors: InvalidArgument (the job), Unavailable (a
// job that failed; its message), Cancelled (`stop_fd` has become readable; -1: never).
absl::StatusOr<Trained> RunCase(const std::string& binary, const TrainCase& what,
                                const TrainRun& run, int stop_fd);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_TRAIN_JOBS_H_

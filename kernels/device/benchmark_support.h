#ifndef STRATA_KERNELS_DEVICE_BENCHMARK_SUPPORT_H_
#define STRATA_KERNELS_DEVICE_BENCHMARK_SUPPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

// Shared by the benchmarks of devices, which tests/gpu/run.sh of a bundle runs.
namespace strata::device {

// Returns the exit status of a benchmark that ended so: 0, 77 if there is no device, else 1. Prints
// an error on stderr.
int ToExitStatus(const absl::Status& status);

// Says what a goal was and whether it is reached, in a line that begins with "goal: ", for run.sh
// to collect.
enum class Wanted { kAtLeast, kAtMost };
void PrintGoal(const std::string& what, double got, Wanted wanted, double bound);

// The upper one of two in the middle. REQUIRES: there is a value.
double Median(std::vector<double> values);

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_BENCHMARK_SUPPORT_H_

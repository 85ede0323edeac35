#ifndef STRATA_KERNELS_DEVICE_BENCHMARK_SUPPORT_H_
#define STRATA_KERNELS_DEVICE_BENCHMARK_SUPPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

// What the benchmarks of devices share, which tests/gpu/run.sh of a bundle runs.
namespace strata::device {

// What a benchmark that ended so ends with: 0, 77 where there is no device, else 1; an error is
// said on stderr.
int ToExitStatus(const absl::Status& status);

// Says what a goal was and whether it is reached, in a line that begins with "goal: ", for run.sh
// to collect.
enum class Wanted { kAtLeast, kAtMost };
void PrintGoal(const std::string& what, double got, Wanted wanted, double bound);

// The upper one of two in the middle. REQUIRES: there is a value.
double Median(std::vector<double> values);

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_BENCHMARK_SUPPORT_H_

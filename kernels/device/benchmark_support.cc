#include "kernels/device/benchmark_support.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/require.h"

namespace strata::device {

int ToExitStatus(const absl::Status& status) {
  constexpr int kSkipped = 77;
  if (status.ok()) return 0;
  std::fprintf(stderr, "strata: error: %s\n", std::string(status.message()).c_str());
  return absl::IsUnavailable(status) || absl::IsNotFound(status) ? kSkipped : 1;
}

void PrintGoal(const std::string& what, double got, Wanted wanted, double bound) {
  const bool at_least = wanted == Wanted::kAtLeast;
  const bool reached = at_least ? got >= bound : got <= bound;
  std::printf("goal: %s: %.2f, wanted at %s %.2f: %s\n", what.c_str(), got,
              at_least ? "least" : "most", bound, reached ? "reached" : "MISSED");
  std::fflush(stdout);
}

double Median(std::vector<double> values) {
  STRATA_REQUIRE(!values.empty());
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace strata::device

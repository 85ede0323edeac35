#ifndef STRATA_COMPARE_STATISTICS_ESTIMATE_H_
#define STRATA_COMPARE_STATISTICS_ESTIMATE_H_

#include <optional>
#include <vector>

namespace strata::compare {

struct Interval {
  double low = 0;
  double high = 0;
};

// A mean over seeds, in the unit of the values.
struct Estimate {
  double mean = 0;
  int count = 0;                     // of values
  std::optional<Interval> interval;  // 95 %; none of fewer than two values
};

// The 0.975 quantile of Student's t distribution. REQUIRES: degrees_of_freedom >= 1.
double StudentQuantile(int degrees_of_freedom);

// The arithmetic mean, mean +- t s / sqrt(n), with s the values' standard deviation over n - 1
// and t Student's quantile with n - 1 degrees of freedom. REQUIRES: values not empty, finite.
Estimate Mean(const std::vector<double>& values);

// exp of that of the logarithms: the interval is a ratio around the mean and never reaches 0.
// REQUIRES: values not empty, above 0.
Estimate GeometricMean(const std::vector<double>& values);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_STATISTICS_ESTIMATE_H_

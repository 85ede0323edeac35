#include "compare/statistics/estimate.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "common/require.h"

namespace strata::compare {

double StudentQuantile(int degrees_of_freedom) {
  STRATA_REQUIRE(degrees_of_freedom >= 1);
  return boost::math::quantile(boost::math::students_t(degrees_of_freedom), 0.975);
}

Estimate Mean(const std::vector<double>& values) {
  STRATA_REQUIRE(!values.empty());
  Estimate estimate;
  const double count = values.size();
  estimate.count = values.size();
  for (const double value : values) estimate.mean += value / count;
  if (values.size() < 2) return estimate;
  double squares = 0;
  for (const double value : values) squares += (value - estimate.mean) * (value - estimate.mean);
  const double half =
      StudentQuantile(estimate.count - 1) * std::sqrt(squares / (count - 1)) / std::sqrt(count);
  estimate.interval = Interval{estimate.mean - half, estimate.mean + half};
  return estimate;
}

Estimate GeometricMean(const std::vector<double>& values) {
  std::vector<double> logarithms;
  for (const double value : values) {
    STRATA_REQUIRE(value > 0);
    logarithms.push_back(std::log(value));
  }
  Estimate estimate = Mean(logarithms);
  estimate.mean = std::exp(estimate.mean);
  if (estimate.interval) {
    *estimate.interval = {std::exp(estimate.interval->low), std::exp(estimate.interval->high)};
  }
  return estimate;
}

}  // namespace strata::compare

#include "compare/sweep/value_axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"

namespace strata::compare {

ValueAxis MakeAxis(const proto::Variation& variation) {
  ValueAxis axis;
  std::vector<double>& at = axis.positions;
  for (const std::string& value : variation.values()) {
    double number = 0;
    const bool is_number = absl::SimpleAtod(value, &number) && std::isfinite(number);
    if (!is_number) axis.kind = ValueAxis::Kind::kNames;
    at.push_back(number);
  }
  if (axis.kind == ValueAxis::Kind::kNames) {
    for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<double>(i);
  }
  const auto [least, greatest] = std::minmax_element(at.begin(), at.end());
  // 0.01 to 0.1 is a decade, whatever rounding says.
  const bool is_wide = *least > 0 && *greatest / *least > 10 * (1 - 1e-9);
  if (axis.kind == ValueAxis::Kind::kLinear && is_wide) {
    axis.kind = ValueAxis::Kind::kLogarithmic;
    for (double& position : at) position = std::log10(position);
  }
  const auto [first, last] = std::minmax_element(at.begin(), at.end());
  const double room = *last > *first ? 0.05 * (*last - *first) : 1;
  axis.low = *first - room;
  axis.high = *last + room;
  return axis;
}

}  // namespace strata::compare

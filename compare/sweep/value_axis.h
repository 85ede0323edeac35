#ifndef STRATA_COMPARE_SWEEP_VALUE_AXIS_H_
#define STRATA_COMPARE_SWEEP_VALUE_AXIS_H_

#include <string>
#include <vector>

#include "compare/campaign/campaign.pb.h"

namespace strata::compare {

// How a field's values lie on a chart's axis.
struct ValueAxis {
  enum class Kind {
    kLinear,
    kLogarithmic,  // numbers above 0 that span a decade or more
    kNames,        // not all are numbers: side by side, in their order
  };
  Kind kind = Kind::kLinear;
  std::vector<double> positions;  // of the values: themselves, their log10, or 0, 1, 2 ...
  double low = 0, high = 0;       // of the axis: a little room on both sides
};

ValueAxis MakeAxis(const proto::Variation& variation);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_VALUE_AXIS_H_

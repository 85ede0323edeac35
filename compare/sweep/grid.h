#ifndef STRATA_COMPARE_SWEEP_GRID_H_
#define STRATA_COMPARE_SWEEP_GRID_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/campaign/campaign.pb.h"

namespace strata::compare {

// The most points of a sweep.
inline constexpr size_t kPointsMax = 1024;

// Parses lists such as "schedule.base_lr=0.01,0.03" each; a comma in brackets or quotes belongs to
// its value. Errors: InvalidArgument, one line: not FIELD=V1,V2,...; no or an empty value; a value
// or field twice; more than kPointsMax points.
absl::StatusOr<std::vector<proto::Variation>> ParseVariations(
    const std::vector<std::string>& texts);

// One choice of values.
struct GridPoint {
  std::string name;                   // "schedule.base_lr=0.01+push.codec=FP16"
  std::vector<std::string> values;    // of the fields, in their order
  std::vector<std::string> settings;  // "schedule.base_lr=0.01"
};

// All choices, the last field's values changing fastest.
std::vector<GridPoint> MakeGrid(const std::vector<proto::Variation>& variations);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_GRID_H_

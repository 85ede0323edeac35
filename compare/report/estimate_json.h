#ifndef STRATA_COMPARE_REPORT_ESTIMATE_JSON_H_
#define STRATA_COMPARE_REPORT_ESTIMATE_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>

#include "compare/statistics/estimate.h"

namespace strata::compare {

// Returns {mean, count, low, high} as README.md says, or null if there is no estimate.
nlohmann::ordered_json ToJson(const std::optional<Estimate>& estimate);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_ESTIMATE_JSON_H_

#ifndef STRATA_COMPARE_REPORT_REPORT_JSON_H_
#define STRATA_COMPARE_REPORT_REPORT_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "compare/analysis.h"
#include "compare/report/content.h"
#include "compare/report/report.h"

namespace strata::compare {

// Returns {mean, count, low, high} as described in docs/reports.md, or null without an estimate.
nlohmann::ordered_json ToJson(const std::optional<Estimate>& estimate);

// Returns the document that docs/reports.md describes, on one line that ends in a newline.
// Non-finite values are null, invalid UTF-8 is U+FFFD.
std::string ReportJson(const ReportInput& input, const Content& content);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_JSON_H_

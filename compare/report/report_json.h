#ifndef STRATA_COMPARE_REPORT_REPORT_JSON_H_
#define STRATA_COMPARE_REPORT_REPORT_JSON_H_

#include <string>

#include "compare/report/content.h"
#include "compare/report/report_input.h"

namespace strata::compare {

// The document that README.md describes, on one line that ends in a newline. What is not finite is
// null, what is not UTF-8 U+FFFD.
std::string ReportJson(const ReportInput& input, const Content& content);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_JSON_H_

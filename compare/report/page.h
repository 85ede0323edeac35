#ifndef STRATA_COMPARE_REPORT_PAGE_H_
#define STRATA_COMPARE_REPORT_PAGE_H_

#include <string>

namespace strata::compare {

// report/index.html: one file that needs nothing else, with the document of ReportJson inside.
std::string Page(const std::string& report_json);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_PAGE_H_

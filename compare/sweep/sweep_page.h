#ifndef STRATA_COMPARE_SWEEP_SWEEP_PAGE_H_
#define STRATA_COMPARE_SWEEP_SWEEP_PAGE_H_

#include <string>

namespace strata::compare {

// report/index.html of a sweep: one file that needs nothing else, with the document of SweepJson
// inside.
std::string SweepPage(const std::string& sweep_json);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_SWEEP_PAGE_H_

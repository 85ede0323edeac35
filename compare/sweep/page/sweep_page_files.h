#ifndef STRATA_COMPARE_SWEEP_PAGE_SWEEP_PAGE_FILES_H_
#define STRATA_COMPARE_SWEEP_PAGE_SWEEP_PAGE_FILES_H_

namespace strata::compare {

// The files of this folder as they were when the binary was built.
extern const char kSweepHtml[];
extern const char kSweepCss[];  // what is added to the report's
extern const char kSweepJs[];   // with the report's text.js and base.js

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_PAGE_SWEEP_PAGE_FILES_H_

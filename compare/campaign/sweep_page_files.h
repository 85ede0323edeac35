#ifndef STRATA_COMPARE_CAMPAIGN_SWEEP_PAGE_FILES_H_
#define STRATA_COMPARE_CAMPAIGN_SWEEP_PAGE_FILES_H_

namespace strata::compare {

// The files of this folder as they were when the binary was built.
extern const char kSweepMainHtml[];
extern const char kSweepCss[];  // what is added to the style of all pages
extern const char kSweepJs[];   // text.js, base.js, data.js and sweep.js

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_SWEEP_PAGE_FILES_H_

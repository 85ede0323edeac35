#ifndef STRATA_COMPARE_REPORT_PAGE_PAGE_FILES_H_
#define STRATA_COMPARE_REPORT_PAGE_PAGE_FILES_H_

namespace strata::compare {

// The files of this folder, and Chart.js with its licence, as they were when the binary was built.
extern const char kIndexHtml[];
extern const char kStyleCss[];
extern const char kPageJs[];  // text.js, base.js, charts.js and page.js
extern const char kChartJs[];

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_PAGE_PAGE_FILES_H_

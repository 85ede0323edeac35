#ifndef STRATA_COMPARE_REPORT_PAGE_FILES_H_
#define STRATA_COMPARE_REPORT_PAGE_FILES_H_

namespace strata::compare {

// The files of this folder, and Chart.js with its licence, as they were when the binary was built.

// Files of all pages.
extern const char kFrameHtml[];
extern const char kStyleCss[];
extern const char kChartJs[];

// Files of the report's page.
extern const char kReportMainHtml[];
extern const char kReportJs[];  // text.js, base.js, data.js, charts.js and page.js

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_PAGE_FILES_H_

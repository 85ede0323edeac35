#ifndef STRATA_CLI_WEB_PAGE_FILES_H_
#define STRATA_CLI_WEB_PAGE_FILES_H_

namespace strata::cli {

// The dashboard's files as they were when the binary was built.

// Each placeholder occurs once. {{style}} is the whole content of <style>, {{page_js}} that of the
// last <script>, so that a policy may name them by the hashes of kWebCss and kWebJs; {{palette}} is
// PaletteJson() (compare/report/palette.h) inside of an element that browsers do not execute.
extern const char kWebHtml[];
extern const char kWebCss[];
extern const char kWebJs[];

// Chart.js with its licence, which kWebHtml loads from /chart.js.
extern const char kChartJs[];

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_PAGE_FILES_H_

#ifndef STRATA_COMPARE_REPORT_REPORT_CHARTS_H_
#define STRATA_COMPARE_REPORT_REPORT_CHARTS_H_

#include <string>
#include <vector>

#include "compare/report/charts.h"
#include "compare/report/content.h"
#include "compare/report/report_files.h"

namespace strata::compare {

// The charts of a report, described once: titles, axes, curves, bars and figures. DrawPictures
// draws them as SVG, and the page's script in the browser.

// A format is the script's number format for an axis, a name in page/text.js: "count", "bytes",
// "seconds", "percent", "plain".
struct DescribedLines {
  const char* axis = "";  // "samples", "seconds", "updates"
  LineChart chart;
  const char* x_format = "";
  const char* y_format = "";
};

struct DescribedBars {
  BarChart chart;
  const char* x_format = "";
};

struct ReportCharts {
  std::vector<DescribedLines> accuracy, loss;  // by axis as in kAxes
  DescribedBars time, bytes, waiting;
  HistogramChart staleness;
};

ReportCharts DescribeCharts(const Content& content);

// Returns the data for the page's script: `accuracy` and `loss` by axis, `time`, `bytes`,
// `waiting`, `staleness`.
std::string ChartsJson(const ReportCharts& charts);

// Draws the charts for use without a browser: accuracy and loss by samples, seconds and updates,
// time to accuracy, bytes per step, waiting, staleness.
std::vector<Picture> DrawPictures(const ReportCharts& charts);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_CHARTS_H_

#ifndef STRATA_COMPARE_REPORT_PICTURES_H_
#define STRATA_COMPARE_REPORT_PICTURES_H_

#include <vector>

#include "compare/report/report_charts.h"
#include "compare/report/report_files.h"

namespace strata::compare {

// Draws the charts for where there is no browser: accuracy and loss by samples, seconds and
// updates, time to accuracy, bytes per step, waiting, staleness.
std::vector<Picture> DrawPictures(const ReportCharts& charts);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_PICTURES_H_

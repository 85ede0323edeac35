#ifndef STRATA_COMPARE_REPORT_REPORT_INPUT_H_
#define STRATA_COMPARE_REPORT_REPORT_INPUT_H_

#include <optional>
#include <string>
#include <vector>

#include "compare/run_record.pb.h"
#include "compare/statistics/metric.h"

namespace strata::compare {

struct ReportInput {
  std::string title;                   // such as the job's name
  std::vector<std::string> modes;      // the first is the baseline; each has a run
  std::vector<proto::RunRecord> runs;  // as the metric sees them (ByMetric)
  std::string straggler;               // what was slowed down on purpose, in words; may be empty
  std::string tuning;  // what each mode got by tuning and what that cost; may be empty
  // 0 to 1: whose time is told; none: it follows from the runs (compare/statistics/README.md).
  std::optional<double> target_accuracy;
  // Final accuracies that differ by less are called equal: 0.005 is half a point.
  double equivalence_margin = 0.005;
  Metric metric;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_INPUT_H_

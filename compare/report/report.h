#ifndef STRATA_COMPARE_REPORT_REPORT_H_
#define STRATA_COMPARE_REPORT_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/analysis.h"
#include "compare/run_record.pb.h"

namespace strata::compare {

struct ReportInput {
  std::string title;                   // such as the job's name
  std::vector<std::string> modes;      // the first is the baseline; each has a run
  std::vector<proto::RunRecord> runs;  // as the metric sees them (ByMetric)
  std::string straggler;               // what was slowed down on purpose, in words; may be empty
  std::string tuning;  // what each mode got by tuning and what that cost; may be empty
  // How far a comparison is whose runs are not all there, in words; empty: it is over.
  std::string under_way;
  // 0 to 1: whose time is told; none: it follows from the runs (docs/reports.md).
  std::optional<double> target_accuracy;
  // Final accuracies that differ by less are called equal: 0.005 is half a point.
  double equivalence_margin = 0.005;
  Metric metric;
};

// The part of a comparison that a terminal shows.
struct Summary {
  std::vector<std::vector<std::string>> rows;  // a table; the first row names the columns
  // Which mode to use, a line or two overall, then one per mode.
  std::vector<std::string> verdict;
};

// Errors: InvalidArgument, one line: what cannot be compared.
absl::StatusOr<Summary> Summarize(const ReportInput& input);

// Writes report.json, report/index.html and report/*.svg into the directory, which exists. What was
// there is replaced, file by file, each as a whole. The same runs have the same bytes. Errors:
// those of Summarize, of files and folders those of WriteFileAtomically.
absl::Status WriteReport(const ReportInput& input, const std::string& directory);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_H_

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
  std::vector<proto::RunRecord> runs;  // seen by the metric (ByMetric)
  std::string straggler;               // the artificial slowdowns, in words; may be empty
  std::string tuning;                  // each mode's result of tuning and its cost; may be empty
  // The progress of a comparison with missing runs, in words; empty: it is complete.
  std::string under_way;
  // 0 to 1: times are measured to this accuracy; none: it follows from the runs (docs/reports.md).
  std::optional<double> target_accuracy;
  // Final accuracies that differ by less count as equal: 0.005 is half a point.
  double equivalence_margin = 0.005;
  Metric metric;
};

// The part of a comparison for a terminal.
struct Summary {
  std::vector<std::vector<std::string>> rows;  // a table; the first row names the columns
  // Which mode to use, one or two lines overall, then one per mode.
  std::vector<std::string> verdict;
};

// Errors: InvalidArgument, one line: what cannot be compared.
absl::StatusOr<Summary> Summarize(const ReportInput& input);

// Writes report.json, report/index.html and report/*.svg into the directory, which exists. Existing
// files are replaced, each atomically. The same runs give the same bytes. Errors: those of
// Summarize and WriteFileAtomically.
absl::Status WriteReport(const ReportInput& input, const std::string& directory);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_H_

#ifndef STRATA_COMPARE_REPORT_REPORT_H_
#define STRATA_COMPARE_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/report/report_input.h"

namespace strata::compare {

// What a terminal shows of a comparison.
struct Summary {
  std::vector<std::vector<std::string>> rows;  // a table; the first row names the columns
  std::vector<std::string> verdict;            // a line or two overall, then one per mode
};

// Errors: InvalidArgument, one line: what cannot be compared.
absl::StatusOr<Summary> Summarize(const ReportInput& input);

// Writes report.json, report/index.html and report/*.svg into the directory, which exists. What was
// there is replaced, file by file, each as a whole. The same runs have the same bytes. Errors:
// those of Summarize, of files and folders those of WriteFileAtomically.
absl::Status WriteReport(const ReportInput& input, const std::string& directory);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_H_

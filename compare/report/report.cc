#include "compare/report/report.h"

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "compare/report/content.h"
#include "compare/report/report_json.h"

namespace strata::compare {

absl::StatusOr<Summary> Summarize(const ReportInput& input) {
  const absl::StatusOr<Content> content = ContentOf(input);
  if (!content.ok()) return content.status();
  Summary summary;
  summary.rows = content->rows;
  summary.verdict = content->verdict.modes;
  summary.verdict.insert(summary.verdict.begin(), content->verdict.overall);
  return summary;
}

absl::Status WriteReport(const ReportInput& input, const std::string& directory) {
  const absl::StatusOr<Content> content = ContentOf(input);
  if (!content.ok()) return content.status();
  return WriteFileAtomically(absl::StrCat(directory, "/report.json"), ReportJson(input, *content));
}

}  // namespace strata::compare

#include "compare/report/report.h"

#include "compare/report/content.h"
#include "compare/report/page_files.h"
#include "compare/report/report_charts.h"
#include "compare/report/report_files.h"
#include "compare/report/report_json.h"

namespace strata::compare {

absl::StatusOr<Summary> Summarize(const ReportInput& input) {
  const absl::StatusOr<Content> content = MakeContent(input);
  if (!content.ok()) return content.status();
  Summary summary;
  summary.rows = content->rows;
  const Verdict& verdict = content->verdict;
  if (!verdict.answer.empty()) summary.verdict.push_back(verdict.answer);
  summary.verdict.push_back(verdict.overall);
  if (!verdict.further.empty()) summary.verdict.push_back(verdict.further);
  summary.verdict.insert(summary.verdict.end(), verdict.modes.begin(), verdict.modes.end());
  return summary;
}

absl::Status WriteReport(const ReportInput& input, const std::string& directory) {
  const absl::StatusOr<Content> content = MakeContent(input);
  if (!content.ok()) return content.status();
  const std::string json = ReportJson(input, *content);
  const ReportCharts charts = DescribeCharts(*content);
  const PageParts parts = {.title = "Strata: comparison of modes",
                           .document = "report.json",
                           .main = kReportMainHtml,
                           .style = "",
                           .scripts = kReportJs};
  return WriteReportFiles({.document = parts.document,
                           .json = json,
                           .page = AssemblePage(parts, json, ChartsJson(charts)),
                           .pictures = DrawPictures(charts)},
                          directory);
}

}  // namespace strata::compare

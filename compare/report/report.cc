#include "compare/report/report.h"

#include <errno.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "compare/report/content.h"
#include "compare/report/page.h"
#include "compare/report/pictures.h"
#include "compare/report/report_json.h"

namespace strata::compare {

absl::StatusOr<Summary> Summarize(const ReportInput& input) {
  const absl::StatusOr<Content> content = ContentOf(input);
  if (!content.ok()) return content.status();
  Summary summary;
  summary.rows = content->rows;
  const Verdict& verdict = content->verdict;
  summary.verdict = {verdict.overall};
  if (!verdict.further.empty()) summary.verdict.push_back(verdict.further);
  summary.verdict.insert(summary.verdict.end(), verdict.modes.begin(), verdict.modes.end());
  return summary;
}

absl::Status WriteReport(const ReportInput& input, const std::string& directory) {
  const absl::StatusOr<Content> content = ContentOf(input);
  if (!content.ok()) return content.status();
  const std::string json = ReportJson(input, *content);
  const std::string folder = absl::StrCat(directory, "/report");
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return FileError(errno, folder);
  absl::Status written = WriteFileAtomically(absl::StrCat(folder, "/index.html"), Page(json));
  if (!written.ok()) return written;
  for (const Picture& picture : PicturesOf(*content)) {
    written = WriteFileAtomically(absl::StrCat(folder, "/", picture.name), picture.svg);
    if (!written.ok()) return written;
  }
  return WriteFileAtomically(absl::StrCat(directory, "/report.json"), json);
}

}  // namespace strata::compare

#ifndef STRATA_COMPARE_REPORT_REPORT_FILES_H_
#define STRATA_COMPARE_REPORT_REPORT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata::compare {

struct Picture {
  std::string name;  // of the file: "accuracy_by_samples.svg"
  std::string svg;
};

// Everything that a comparison or a sweep writes at its end.
struct ReportFiles {
  std::string document;  // the name of the file that holds `json`: "report.json"
  std::string json;
  std::string page;  // report/index.html
  std::vector<Picture> pictures;
};

// Writes the page and the pictures into `report` below the directory, which is created if needed,
// and then the document into the directory. Each file is written atomically. Errors: FileError's,
// with the path.
absl::Status WriteReportFiles(const ReportFiles& files, const std::string& directory);

// The parts in which pages differ. All but the style are inserted unescaped, so they come only from
// files of the source tree.
struct PageParts {
  const char* title;  // until a script replaces it
  const char*
      document;       // the name of the file with all figures, in the parent of the page's folder
  const char* main;   // the content of <main>
  const char* style;  // rules in addition to those of all pages
  const char* scripts;
};

// Returns report/index.html: one self-contained file, with the JSON document, the data of its
// charts (JSON, too), and the colours and dashes of palette.h inside.
std::string AssemblePage(const PageParts& parts, const std::string& json,
                         const std::string& charts = "null");

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_REPORT_FILES_H_

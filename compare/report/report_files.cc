#include "compare/report/report_files.h"

#include <errno.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/os/atomic_file.h"
#include "compare/report/page_files.h"
#include "compare/report/palette.h"

namespace strata::compare {

absl::Status WriteReportFiles(const ReportFiles& files, const std::string& directory) {
  const std::string folder = absl::StrCat(directory, "/report");
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return FileError(errno, folder);
  absl::Status written = WriteFileAtomically(absl::StrCat(folder, "/index.html"), files.page);
  if (!written.ok()) return written;
  for (const Picture& picture : files.pictures) {
    written = WriteFileAtomically(absl::StrCat(folder, "/", picture.name), picture.svg);
    if (!written.ok()) return written;
  }
  return WriteFileAtomically(absl::StrCat(directory, "/", files.document), files.json);
}

namespace {

// Returns the same JSON document for the inside of <script>, without what could end the element.
std::string InsideHtml(const std::string& json) {
  return absl::StrReplaceAll(json, {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

}  // namespace

std::string AssemblePage(const PageParts& parts, const std::string& json,
                         const std::string& charts) {
  // In one pass: what is put in is not searched for places.
  return absl::StrReplaceAll(kFrameHtml, {{"{{title}}", parts.title},
                                          {"{{document}}", parts.document},
                                          {"{{style}}", absl::StrCat(kStyleCss, parts.style)},
                                          {"{{main}}", parts.main},
                                          {"{{data}}", InsideHtml(json)},
                                          {"{{charts}}", InsideHtml(charts)},
                                          {"{{palette}}", PaletteJson()},
                                          {"{{chart_js}}", kChartJs},
                                          {"{{page_js}}", parts.scripts}});
}

}  // namespace strata::compare

#include "compare/report/report_files.h"

#include <errno.h>
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "common/file/atomic_file.h"

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

}  // namespace strata::compare

#include "common/file/own_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/file/file_error.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnOnly = 0700;

absl::Status Make(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return absl::OkStatus();
  if (folder != folder.parent_path()) {
    if (absl::Status status = Make(folder.parent_path()); !status.ok()) return status;
  }
  if (mkdir(folder.c_str(), kOwnOnly) == 0) return absl::OkStatus();
  if (errno != EEXIST) return FileError(errno, folder.string());
  // Somebody else has just made it, or it is a file.
  return fs::is_directory(folder, error) ? absl::OkStatus() : FileError(ENOTDIR, folder.string());
}

}  // namespace

absl::Status MakeOwnFolders(const std::string& path) {
  const fs::path folder = path;
  return Make(folder.has_filename() ? folder : folder.parent_path());
}

}  // namespace strata

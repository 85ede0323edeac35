#include "cli/own_binary.h"

#include "absl/strings/str_cat.h"

namespace strata::cli {

absl::StatusOr<std::filesystem::path> OwnBinary() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError(absl::StrCat("/proc/self/exe: ", error.message()));
  return path;
}

}  // namespace strata::cli

#include "cli/options/own_binary.h"

#include "absl/strings/str_cat.h"

namespace strata::cli {

absl::StatusOr<std::filesystem::path> OwnBinary() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::InternalError(absl::StrCat("/proc/self/exe: ", error.message()));
  return path;
}

absl::StatusOr<std::filesystem::path> FileOfProgram(const std::string& name,
                                                    const std::string& package) {
  const absl::StatusOr<std::filesystem::path> self = OwnBinary();
  if (!self.ok()) return self.status();
  const std::filesystem::path here = self->parent_path();
  const std::filesystem::path beside = here / name, built = here.parent_path() / package / name;
  std::error_code ignored;
  const bool take_built =
      !std::filesystem::exists(beside, ignored) && std::filesystem::exists(built, ignored);
  return take_built ? built : beside;
}

}  // namespace strata::cli

#include "worker/client/connect/load_plugin.h"

#include <dlfcn.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/os/trusted_file.h"
#include "worker/client/connect/collective.h"

namespace strata::mpi {

absl::StatusOr<std::unique_ptr<Collective>> LoadPlugin(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path);
  if (const absl::Status trusted = CheckTrusted(absolute); absl::IsNotFound(trusted)) {
    return absl::NotFoundError(
        absl::StrCat("exchange: MPI needs the plugin that is built where MPI is installed: ",
                     trusted.message()));
  } else if (!trusted.ok()) {
    return trusted;
  }
  // MPI loads libraries of its own that look up its symbols among the global ones.
  void* library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "exchange: MPI needs the plugin that is built where MPI is installed: ", dlerror()));
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntry));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no plugin of this program"));
  }
  char error[512] = {};
  std::unique_ptr<Collective> collective(entry(kPluginVersion, error, sizeof error));
  if (collective == nullptr) return absl::FailedPreconditionError(absl::StrCat(path, ": ", error));
  return collective;
}

}  // namespace strata::mpi

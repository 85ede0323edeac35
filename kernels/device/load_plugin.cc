#include "kernels/device/load_plugin.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/os/trusted_file.h"
#include "kernels/device/device.h"

namespace strata::device {

absl::StatusOr<std::shared_ptr<Devices>> LoadPlugin(const std::string& plugin) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(plugin, absl::MaxSplits(',', 1));
  const std::string& path = parts.first;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": is not there; it is built where CUDA's compiler nvcc is found"));
  }
  const std::string absolute = std::filesystem::absolute(path);
  if (absl::Status trusted = CheckTrusted(absolute); !trusted.ok()) return trusted;
  void* library = dlopen(absolute.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return absl::FailedPreconditionError(dlerror());
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntry));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": is no plugin for devices"));
  }
  char error[512] = {};
  std::shared_ptr<Devices> devices(
      entry(kPluginVersion, parts.second.c_str(), error, sizeof error));
  if (devices == nullptr) return absl::UnavailableError(absl::StrCat(path, ": ", error));
  return devices;
}

}  // namespace strata::device

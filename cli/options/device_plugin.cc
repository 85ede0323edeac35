#include "cli/options/device_plugin.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "cli/program/own_binary.h"
#include "kernels/device/load_plugin.h"

namespace strata::cli {

void AddDevicePluginOption(CLI::App* command, std::string* plugin) {
  command->add_option("--device-plugin", *plugin,
                      "Plugin for accelerators, with options of its own after commas (default: "
                      "libstrata_cuda.so beside this program)");
}

absl::StatusOr<std::string> FindDevicePlugin(const std::string& given) {
  if (given.empty()) {
    const auto installed = FileOfProgram("libstrata_cuda.so", "kernels/cuda");
    if (!installed.ok()) return installed.status();
    return installed->string();
  }
  const size_t end = std::min(given.find(','), given.size());
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(given.substr(0, end), error);
  if (error) return absl::InternalError(absl::StrCat(given, ": ", error.message()));
  return absl::StrCat(path.string(), given.substr(end));
}

absl::StatusOr<std::shared_ptr<device::Devices>> LoadDevicePlugin(const std::string& given) {
  if (!given.empty()) return device::LoadPlugin(given);
  const absl::StatusOr<std::string> plugin = FindDevicePlugin(given);
  return plugin.ok() ? device::LoadPlugin(*plugin) : plugin.status();
}

}  // namespace strata::cli

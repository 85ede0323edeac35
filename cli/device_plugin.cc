#include "cli/device_plugin.h"

#include <CLI/CLI.hpp>

#include "cli/own_binary.h"
#include "kernels/device/load_plugin.h"

namespace strata::cli {

void AddDevicePluginOption(CLI::App* command, std::string* plugin) {
  command->add_option("--device-plugin", *plugin,
                      "Plugin for accelerators, with options of its own after commas (default: "
                      "libstrata_cuda.so beside this program)");
}

absl::StatusOr<std::shared_ptr<device::Devices>> LoadDevicePlugin(const std::string& given) {
  if (!given.empty()) return device::LoadPlugin(given);
  const auto installed = FileOfProgram("libstrata_cuda.so", "kernels/cuda");
  return installed.ok() ? device::LoadPlugin(installed->string()) : installed.status();
}

}  // namespace strata::cli

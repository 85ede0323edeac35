#include "cli/device_plugin.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/own_binary.h"
#include "kernels/device/load_plugin.h"

namespace strata::cli {
namespace {

constexpr char kPlugin[] = "libstrata_cuda.so";

}  // namespace

void AddDevicePluginOption(CLI::App* command, std::string* plugin) {
  command->add_option("--device-plugin", *plugin,
                      "Plugin for accelerators, with options of its own after commas (default: "
                      "libstrata_cuda.so beside this program)");
}

absl::StatusOr<std::shared_ptr<device::Devices>> LoadDevicePlugin(const std::string& given) {
  if (!given.empty()) return device::LoadPlugin(given);
  const absl::StatusOr<std::filesystem::path> self = OwnBinary();
  if (!self.ok()) return self.status();
  const std::filesystem::path beside = self->parent_path() / kPlugin;
  const std::filesystem::path built = self->parent_path().parent_path() / "kernels/cuda" / kPlugin;
  std::error_code ignored;
  const bool take_built =
      !std::filesystem::exists(beside, ignored) && std::filesystem::exists(built, ignored);
  return device::LoadPlugin((take_built ? built : beside).string());
}

}  // namespace strata::cli

#ifndef STRATA_CLI_OPTIONS_DEVICE_PLUGIN_H_
#define STRATA_CLI_OPTIONS_DEVICE_PLUGIN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace CLI {
class App;
}  // namespace CLI

namespace strata::cli {

// "PATH" or "PATH,NAME=VALUE,..."; empty: the one that is installed.
void AddDevicePluginOption(CLI::App* command, std::string* plugin);

// The plugin for accelerators: the given one, else libstrata_cuda.so beside this program or where
// Bazel built it. With an absolute path, so that it is the same in other directories.
absl::StatusOr<std::string> FindDevicePlugin(const std::string& given);
// Loads it. Errors: device::LoadPlugin's.
absl::StatusOr<std::shared_ptr<device::Devices>> LoadDevicePlugin(const std::string& given);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_DEVICE_PLUGIN_H_

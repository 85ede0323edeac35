#ifndef STRATA_CLI_OPTIONS_GPU_OPTIONS_H_
#define STRATA_CLI_OPTIONS_GPU_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "proto/control.pb.h"

namespace CLI {
class App;
}  // namespace CLI

namespace strata::cli {

// "PATH" or "PATH,NAME=VALUE,..."; empty: the installed one.
void AddDevicePluginOption(CLI::App* command, std::string* plugin);

// Returns the plugin for accelerators: the given one, otherwise libstrata_cuda.so beside this
// program or where Bazel built it. The path is absolute, so that it works in other directories.
absl::StatusOr<std::string> FindDevicePlugin(const std::string& given);
// Loads it. Errors: those of device::LoadPlugin.
absl::StatusOr<std::shared_ptr<device::Devices>> LoadDevicePlugin(const std::string& given);

// The devices that a worker's ranks may use, as given on the command line.
struct GpuOptions {
  std::string plugin;          // as in AddDevicePluginOption
  std::string gpus;            // "0,1" or "none"; empty: all devices of the plugin
  uint32_t ranks_per_gpu = 0;  // at once; 0: 1
};

// --device-plugin, --gpus and --ranks-per-gpu.
void AddGpuOptions(CLI::App* command, GpuOptions* options);

// Returns the same options for a worker's command line.
std::vector<std::string> DescribeGpus(const GpuOptions& options);

// Parses "none", or ascending comma-separated indices. Errors: InvalidArgument.
absl::StatusOr<std::vector<uint32_t>> ParseGpuIndices(const std::string& text);

// Returns those of `devices` named by `gpus`. Errors: InvalidArgument naming unknown ones.
absl::StatusOr<std::vector<proto::Gpu>> ChooseGpus(const std::vector<device::DeviceInfo>& devices,
                                                   const std::string& gpus);

// Returns the indices for each of `nodes` nodes on one machine, dealt in turn; with fewer GPUs than
// nodes, GPUs are shared in turn, one per node. Without GPUs none has one.
std::vector<std::vector<uint32_t>> ShareGpus(const std::vector<proto::Gpu>& gpus, size_t nodes);

struct FoundGpus {
  std::string plugin;            // for ranks; an absolute path
  std::vector<proto::Gpu> gpus;  // by ascending index
  std::string why_none;
};
// Loads the plugin to list its devices, without using any. Finding none is an error only if a
// plugin or GPUs were requested. Errors: those of ChooseGpus and device::LoadPlugin.
absl::StatusOr<FoundGpus> FindGpus(const GpuOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_GPU_OPTIONS_H_

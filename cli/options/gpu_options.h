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

// "PATH" or "PATH,NAME=VALUE,..."; empty: the one that is installed.
void AddDevicePluginOption(CLI::App* command, std::string* plugin);

// The plugin for accelerators: the given one, else libstrata_cuda.so beside this program or where
// Bazel built it. With an absolute path, so that it is the same in other directories.
absl::StatusOr<std::string> FindDevicePlugin(const std::string& given);
// Loads it. Errors: device::LoadPlugin's.
absl::StatusOr<std::shared_ptr<device::Devices>> LoadDevicePlugin(const std::string& given);

// The devices that a worker's ranks may use, as given on the command line.
struct GpuOptions {
  std::string plugin;          // as in AddDevicePluginOption
  std::string gpus;            // "0,1" or "none"; empty: all that the plugin lists
  uint32_t ranks_per_gpu = 0;  // at once; 0: 1
};

// --device-plugin, --gpus and --ranks-per-gpu.
void AddGpuOptions(CLI::App* command, GpuOptions* options);

// The words that say the same to a worker.
std::vector<std::string> DescribeGpus(const GpuOptions& options);

// "none", or ascending indices with commas between them. Errors: InvalidArgument.
absl::StatusOr<std::vector<uint32_t>> ParseGpuIndices(const std::string& text);

// Returns those of `devices` that `gpus` names. Errors: InvalidArgument naming what is not among
// them.
absl::StatusOr<std::vector<proto::Gpu>> ChooseGpus(const std::vector<device::DeviceInfo>& devices,
                                                   const std::string& gpus);

// The indices that each of so many nodes of one machine has: they take them in turn; where there
// are fewer GPUs than nodes, the GPUs are what is taken in turn, one by each node. Without any GPU
// none has one.
std::vector<std::vector<uint32_t>> ShareGpus(const std::vector<proto::Gpu>& gpus, size_t nodes);

struct FoundGpus {
  std::string plugin;            // for ranks; in any directory the same
  std::vector<proto::Gpu> gpus;  // by ascending index
  std::string why_none;
};
// Loads the plugin to list its devices, and uses none. Finding none is an error only if a plugin or
// GPUs were requested. Errors: ChooseGpus' and device::LoadPlugin's.
absl::StatusOr<FoundGpus> FindGpus(const GpuOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_GPU_OPTIONS_H_

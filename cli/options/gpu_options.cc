#include "cli/options/gpu_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/options/own_binary.h"
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

namespace {

constexpr char kNone[] = "none";

absl::Status NoSuchGpu(uint32_t index, const std::vector<device::DeviceInfo>& devices) {
  const auto index_of = [](std::string* out, const device::DeviceInfo& device) {
    absl::StrAppend(out, device.index);
  };
  return absl::InvalidArgumentError(absl::StrCat("--gpus ", index, ": the devices here are ",
                                                 absl::StrJoin(devices, ",", index_of)));
}

}  // namespace

void AddGpuOptions(CLI::App* command, GpuOptions* options) {
  AddDevicePluginOption(command, &options->plugin);
  command->add_option("--gpus", options->gpus,
                      "Devices that ranks may compute on, such as 0,1, or none (default: all that "
                      "`strata devices` lists)");
  command
      ->add_option("--ranks-per-gpu", options->ranks_per_gpu,
                   "Ranks that may compute on one device at once (default: 1)")
      ->check(CLI::Range(1u, 1024u));
}

std::vector<std::string> DescribeGpus(const GpuOptions& options) {
  std::vector<std::string> words;
  if (!options.plugin.empty()) words.insert(words.end(), {"--device-plugin", options.plugin});
  if (!options.gpus.empty()) words.insert(words.end(), {"--gpus", options.gpus});
  if (options.ranks_per_gpu > 0) {
    words.insert(words.end(), {"--ranks-per-gpu", absl::StrCat(options.ranks_per_gpu)});
  }
  return words;
}

absl::StatusOr<std::vector<uint32_t>> ParseGpuIndices(const std::string& text) {
  std::vector<uint32_t> indices;
  if (text == kNone) return indices;
  for (const auto word : absl::StrSplit(text, ',')) {
    uint32_t index = 0;
    if (!absl::SimpleAtoi(word, &index) || (!indices.empty() && index <= indices.back())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "gpus \"", text, "\": must be none, or ascending indices of devices such as 0,1"));
    }
    indices.push_back(index);
  }
  return indices;
}

absl::StatusOr<std::vector<proto::Gpu>> ChooseGpus(const std::vector<device::DeviceInfo>& devices,
                                                   const std::string& gpus) {
  std::vector<uint32_t> indices;
  if (gpus.empty()) {
    for (const device::DeviceInfo& device : devices) indices.push_back(device.index);
  } else {
    absl::StatusOr<std::vector<uint32_t>> wanted = ParseGpuIndices(gpus);
    if (!wanted.ok()) return wanted.status();
    indices = *std::move(wanted);
  }
  std::vector<proto::Gpu> chosen;
  for (const uint32_t index : indices) {
    const auto device =
        std::find_if(devices.begin(), devices.end(),
                     [=](const device::DeviceInfo& each) { return each.index == index; });
    if (device == devices.end()) return NoSuchGpu(index, devices);
    proto::Gpu& gpu = chosen.emplace_back();
    gpu.set_index(index);
    gpu.set_name(device->name);
    gpu.set_memory_bytes(device->memory_bytes);
  }
  return chosen;
}

std::vector<std::vector<uint32_t>> ShareGpus(const std::vector<proto::Gpu>& gpus, size_t nodes) {
  std::vector<std::vector<uint32_t>> shares(nodes);
  if (gpus.empty()) return shares;
  for (size_t i = 0; i < std::max(nodes, gpus.size()); ++i) {
    shares[i % nodes].push_back(gpus[i % gpus.size()].index());
  }
  return shares;
}

absl::StatusOr<FoundGpus> FindGpus(const GpuOptions& options) {
  FoundGpus found;
  if (options.gpus == kNone) {
    found.why_none = "--gpus none";
    return found;
  }
  if (!options.gpus.empty()) {
    if (const auto indices = ParseGpuIndices(options.gpus); !indices.ok()) return indices.status();
  }
  const absl::StatusOr<std::string> plugin = FindDevicePlugin(options.plugin);
  if (!plugin.ok()) return plugin.status();
  const auto devices = LoadDevicePlugin(options.plugin);
  if (!devices.ok()) {
    if (!options.plugin.empty() || !options.gpus.empty()) return devices.status();
    found.why_none = std::string(devices.status().message());
    return found;
  }
  found.plugin = *plugin;
  absl::StatusOr<std::vector<proto::Gpu>> gpus = ChooseGpus((*devices)->infos(), options.gpus);
  if (!gpus.ok()) return gpus.status();
  found.gpus = *std::move(gpus);
  return found;
}

}  // namespace strata::cli

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/options/gpu_options.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "cli/render/render_daemons.h"
#include "cli/render/table.h"
#include "common/counted.h"

namespace strata::cli {
namespace {

struct DevicesOptions {
  std::string plugin;
  bool json = false;
};

struct Listed {
  device::DeviceInfo info;
  absl::StatusOr<size_t> free;
};

std::vector<Listed> ListDevices(device::Devices* devices) {
  std::vector<Listed> all;
  for (const device::DeviceInfo& info : devices->infos()) {
    const auto device = devices->Use(info.index);
    all.push_back({info, device.ok() ? (*device)->FreeBytes() : device.status()});
  }
  return all;
}

std::string Text(const std::string& software, const std::vector<Listed>& devices) {
  std::vector<Row> rows = {{"device", "name", "architecture", "bus", "memory", "free"}};
  for (const Listed& device : devices) {
    rows.push_back({absl::StrCat(device.info.index), device.info.name, device.info.architecture,
                    device.info.bus, MemoryText(device.info.memory_bytes),
                    device.free.ok() ? MemoryText(*device.free)
                                     : std::string(device.free.status().message())});
  }
  return absl::StrCat(software, ": ", Counted(devices.size(), "device"), "\n", Table(rows));
}

std::string Json(const std::string& software, const std::vector<Listed>& devices,
                 const std::string& why_none) {
  nlohmann::ordered_json json = {{"software", software}, {"devices", nlohmann::json::array()}};
  for (const Listed& device : devices) {
    nlohmann::ordered_json one = {{"index", device.info.index},
                                  {"name", device.info.name},
                                  {"architecture", device.info.architecture},
                                  {"bus", device.info.bus},
                                  {"memory_bytes", device.info.memory_bytes}};
    if (device.free.ok()) one["free_bytes"] = *device.free;
    if (!device.free.ok()) one["error"] = std::string(device.free.status().message());
    json["devices"].push_back(one);
  }
  if (!why_none.empty()) json["why_none"] = why_none;
  return absl::StrCat(json.dump(2), "\n");
}

int RunDevices(const DevicesOptions& options) {
  const auto loaded = LoadDevicePlugin(options.plugin);
  // No device is a valid answer, unless a certain one was requested.
  if (!loaded.ok() && !options.plugin.empty()) return PrintError(loaded.status());
  const std::string why_none(loaded.ok() ? "" : loaded.status().message());
  const std::string software = loaded.ok() ? (*loaded)->software() : "";
  const std::vector<Listed> devices =
      loaded.ok() ? ListDevices(loaded->get()) : std::vector<Listed>{};
  if (options.json) {
    PrintJson(stdout, Json(software, devices, why_none));
  } else if (!loaded.ok()) {
    PrintF(stdout, "no devices: %s\n", why_none);
  } else {
    PrintText(stdout, Text(software, devices));
  }
  return kExitOk;
}

}  // namespace

void AddDevicesCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<DevicesOptions>();
  CLI::App* command =
      app->add_subcommand("devices", "List this machine's accelerators, or why there are none");
  AddDevicePluginOption(command, &options->plugin);
  AddJsonOption(command, &options->json);
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata devices\n"
      "  strata devices --json");
  command->callback([=] { invocation->run = [options] { return RunDevices(*options); }; });
}

}  // namespace strata::cli

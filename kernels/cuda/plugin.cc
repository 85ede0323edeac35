// The entry of a plugin for devices: this folder with CUDA, or with the fake device in its place.
#include <cstdio>
#include <cstring>
#include <string>

#include "kernels/cuda/device.h"
#include "kernels/cuda/runtime/plugin_options.h"
#include "kernels/device/device.h"

extern "C" strata::device::Devices* StrataDevices(const char* version, const char* options,
                                                  char* error, size_t error_size) {
  const auto refuse = [&](const std::string& why) {
    std::snprintf(error, error_size, "%s", why.c_str());
    return nullptr;
  };
  if (std::strcmp(version, strata::device::kPluginVersion) != 0) {
    return refuse("it is of another build of this program");
  }
  const absl::Status status = strata::cuda::TakeOptions(options);
  if (!status.ok()) return refuse(std::string(status.message()));
  auto devices = strata::cuda::FindDevices();
  if (!devices.ok()) return refuse(std::string(devices.status().message()));
  return devices->release();
}

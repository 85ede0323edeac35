#ifndef STRATA_KERNELS_DEVICE_LOAD_PLUGIN_H_
#define STRATA_KERNELS_DEVICE_LOAD_PLUGIN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace strata::device {

// Loads a plugin, as in "/opt/strata/libstrata_cuda.so" or, with options of its own,
// "PATH,devices=2". The library stays loaded. Errors, each naming the path: NotFound (no such file:
// the build found no nvcc), FailedPrecondition (of another build, a required library is missing, or
// others may replace the file, see CheckTrusted), Unavailable (no device, no driver or wrong
// options: the plugin says which).
absl::StatusOr<std::shared_ptr<Devices>> LoadPlugin(const std::string& plugin);

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_LOAD_PLUGIN_H_

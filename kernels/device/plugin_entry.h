#ifndef STRATA_KERNELS_DEVICE_PLUGIN_ENTRY_H_
#define STRATA_KERNELS_DEVICE_PLUGIN_ENTRY_H_

#include <cstddef>

namespace strata::device {

class Devices;

// Changes whenever an interface of this folder does: program and plugin come from one build.
inline constexpr char kPluginVersion[] = "2";
inline constexpr char kPluginEntry[] = "StrataDevices";

// `options`: NAME=VALUE with commas between them, which each plugin documents; may be empty. The
// caller owns what it returns. Null: `error` says why there is no device.
using PluginEntry = Devices* (*)(const char* version, const char* options, char* error,
                                 size_t error_size);

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_PLUGIN_ENTRY_H_

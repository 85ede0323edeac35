#ifndef STRATA_KERNELS_CUDA_PLUGIN_OPTIONS_H_
#define STRATA_KERNELS_CUDA_PLUGIN_OPTIONS_H_

#include <string>

#include "absl/status/status.h"

namespace strata::cuda {

// What stands behind the plugin's path. Errors: InvalidArgument naming the option.
absl::Status TakeOptions(const std::string& options);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_PLUGIN_OPTIONS_H_

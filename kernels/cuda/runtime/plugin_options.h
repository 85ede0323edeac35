#ifndef STRATA_KERNELS_CUDA_RUNTIME_PLUGIN_OPTIONS_H_
#define STRATA_KERNELS_CUDA_RUNTIME_PLUGIN_OPTIONS_H_

#include <string>

#include "absl/status/status.h"

namespace strata::cuda {

// The folder of what the plugin loads when it is asked for; empty: see FindLibrary.
struct PluginOptions {
  std::string nccl_dir;   // nccl=DIR
  std::string cudnn_dir;  // cudnn=DIR, also cuBLAS
};

// Takes the options behind the plugin's path. Errors: InvalidArgument naming the option.
absl::Status TakeOptions(const std::string& options);
const PluginOptions& CurrentOptions();

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_RUNTIME_PLUGIN_OPTIONS_H_

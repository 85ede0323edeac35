#include "kernels/cuda/runtime/plugin_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::cuda {
namespace {

PluginOptions& Mutable() {
  static PluginOptions options;
  return options;
}

}  // namespace

absl::Status TakeOptions(const std::string& options) {
  PluginOptions taken;
  for (const auto option : absl::StrSplit(options, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(option, absl::MaxSplits('=', 1));
    if (pair.first == "nccl" && !pair.second.empty()) {
      taken.nccl_dir = pair.second;
    } else if (pair.first == "cudnn" && !pair.second.empty()) {
      taken.cudnn_dir = pair.second;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(option, ": is no option of CUDA devices, which have nccl=DIR, cudnn=DIR"));
    }
  }
  Mutable() = std::move(taken);
  return absl::OkStatus();
}

const PluginOptions& CurrentOptions() { return Mutable(); }

}  // namespace strata::cuda

#include "kernels/cuda/plugin_options.h"

#include "absl/strings/str_cat.h"

namespace strata::cuda {

absl::Status TakeOptions(const std::string& options) {
  if (options.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(options, ": CUDA devices have no options"));
}

}  // namespace strata::cuda

#include "kernels/cuda/runtime/plugin_options.h"
#include "kernels/fake_cuda/control.h"

namespace strata::cuda {

absl::Status TakeOptions(const std::string& options) { return fake_cuda::ConfigureFrom(options); }

}  // namespace strata::cuda

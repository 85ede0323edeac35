#include "kernels/cuda/device.h"
#include "kernels/cuda/sum.h"

namespace strata::cuda {

const device::DeviceKernels& Kernels() {
  static constexpr device::DeviceKernels kKernels = {
      .sum = Sum,
      .check_finite = CheckFinite,
  };
  return kKernels;
}

}  // namespace strata::cuda

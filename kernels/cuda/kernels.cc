#include "kernels/cuda/device.h"
#include "kernels/cuda/sparse.h"
#include "kernels/cuda/sum.h"

namespace strata::cuda {

const device::DeviceKernels& Kernels() {
  static constexpr device::DeviceKernels kKernels = {
      .sum = Sum,
      .check_finite = CheckFinite,
      .sparse = {Accumulate, Select, Sample, Count, SelectBetween, Keep, IndicesAscend, AddSparse},
  };
  return kKernels;
}

}  // namespace strata::cuda

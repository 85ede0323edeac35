#ifndef STRATA_KERNELS_CUDA_UPDATE_OPTIMIZE_H_
#define STRATA_KERNELS_CUDA_UPDATE_OPTIMIZE_H_

#include "kernels/device/device_kernels.h"

namespace strata::cuda {

// Contracts: device::DeviceKernels. Weights are always written the same way: step.far is not used.
absl::Status Optimize(device::Stream& stream, const OptimizerParams& params,
                      const kernels::OptimizerStep& step, const float* gradient_sum,
                      const float* w_in, float* w_out, float* state0, float* state1, size_t n);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_OPTIMIZE_H_

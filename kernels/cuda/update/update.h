#ifndef STRATA_KERNELS_CUDA_UPDATE_UPDATE_H_
#define STRATA_KERNELS_CUDA_UPDATE_UPDATE_H_

#include "kernels/device/device_kernels.h"

namespace strata::cuda {

// Contracts: device::DeviceKernels.
absl::Status Compensate(device::Stream& stream, const DelayCompensation& how, float scale,
                        const float* gradient_sum, const float* w, const float* w_base,
                        float* mean_square, float* out, size_t n);

// Contracts: device::DeviceKernels. Weights are always written the same way: step.far is not used.
absl::Status Optimize(device::Stream& stream, const OptimizerParams& params,
                      const kernels::OptimizerStep& step, const float* gradient_sum,
                      const float* w_in, float* w_out, float* state0, float* state1, size_t n);

// Contracts: device::DeviceKernels.
absl::Status Sum(device::Stream& stream, absl::Span<const float* const> inputs, float* out,
                 size_t n, device::Verdict* verdict);
absl::Status CheckFinite(device::Stream& stream, const float* x, size_t n,
                         device::Verdict* verdict);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_UPDATE_H_

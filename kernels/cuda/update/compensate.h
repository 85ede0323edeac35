#ifndef STRATA_KERNELS_CUDA_UPDATE_COMPENSATE_H_
#define STRATA_KERNELS_CUDA_UPDATE_COMPENSATE_H_

#include "kernels/device/device_kernels.h"

namespace strata::cuda {

// Contracts: device::DeviceKernels.
absl::Status Compensate(device::Stream& stream, const DelayCompensation& how, float scale,
                        const float* gradient_sum, const float* w, const float* w_base,
                        float* mean_square, float* out, size_t n);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_COMPENSATE_H_

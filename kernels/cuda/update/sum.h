#ifndef STRATA_KERNELS_CUDA_UPDATE_SUM_H_
#define STRATA_KERNELS_CUDA_UPDATE_SUM_H_

#include "kernels/device/device_kernels.h"

namespace strata::cuda {

// Contracts: device::DeviceKernels.
absl::Status Sum(device::Stream& stream, absl::Span<const float* const> inputs, float* out,
                 size_t n, device::Verdict* verdict);
absl::Status CheckFinite(device::Stream& stream, const float* x, size_t n,
                         device::Verdict* verdict);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_UPDATE_SUM_H_

#ifndef STRATA_KERNELS_CUDA_RUNTIME_CHECK_H_
#define STRATA_KERNELS_CUDA_RUNTIME_CHECK_H_

#include <cuda_runtime.h>

#include "absl/status/status.h"

namespace strata::cuda {

// What a call of CUDA's said, as in "device 0: cudaMemcpyAsync: an illegal memory access was
// encountered (cudaErrorIllegalAddress)". Internal; out of memory: ResourceExhausted.
absl::Status Check(int device, const char* call, cudaError_t error);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_RUNTIME_CHECK_H_

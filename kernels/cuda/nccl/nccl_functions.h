#ifndef STRATA_KERNELS_CUDA_NCCL_NCCL_FUNCTIONS_H_
#define STRATA_KERNELS_CUDA_NCCL_NCCL_FUNCTIONS_H_

#include <nccl.h>

#include "absl/status/statusor.h"

namespace strata::cuda {

// The functions of NCCL that communicator.cc calls, under NCCL's names.
struct NcclFunctions {
  decltype(&::ncclGetUniqueId) GetUniqueId;
  decltype(&::ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&::ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&::ncclCommFinalize) CommFinalize;
  decltype(&::ncclCommDestroy) CommDestroy;
  decltype(&::ncclCommAbort) CommAbort;
  decltype(&::ncclAllReduce) AllReduce;
  decltype(&::ncclReduce) Reduce;
  decltype(&::ncclBroadcast) Broadcast;
  decltype(&::ncclGetErrorString) GetErrorString;
  decltype(&::ncclGetLastError) GetLastError;
};

// Returns the functions of libnccl.so.2, which the first call loads, or of the fake one. Errors:
// FindLibrary's; FailedPrecondition (the library lacks one of these).
absl::StatusOr<const NcclFunctions*> LoadNccl();

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_NCCL_NCCL_FUNCTIONS_H_

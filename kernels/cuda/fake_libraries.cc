// The plugin's libraries and options on the fake device: in place of nccl_functions.cc,
// libraries.cc and plugin_options.cc.
#include "kernels/cuda/cudnn/libraries.h"
#include "kernels/cuda/nccl/nccl_functions.h"
#include "kernels/cuda/runtime/plugin_options.h"
#include "kernels/fake_cuda/control.h"

namespace strata::cuda {

absl::Status TakeOptions(const std::string& options) { return fake_cuda::ConfigureFrom(options); }

absl::StatusOr<const NcclFunctions*> LoadNccl() {
  static constexpr NcclFunctions kFake = {
      .GetUniqueId = &ncclGetUniqueId,
      .CommInitRankConfig = &ncclCommInitRankConfig,
      .CommGetAsyncError = &ncclCommGetAsyncError,
      .CommFinalize = &ncclCommFinalize,
      .CommDestroy = &ncclCommDestroy,
      .CommAbort = &ncclCommAbort,
      .AllReduce = &ncclAllReduce,
      .Reduce = &ncclReduce,
      .Broadcast = &ncclBroadcast,
      .GetErrorString = &ncclGetErrorString,
      .GetLastError = &ncclGetLastError,
  };
  return &kFake;
}

absl::StatusOr<const Libraries*> LoadLibraries() {
  static const Libraries kLibraries = {
      .cudnn_version = cudnnGetVersion,
      .cudnn_error_string = cudnnGetErrorString,
      .cudnn_last_error = cudnnGetLastErrorString,
      .cudnn_create = cudnnCreate,
      .cudnn_destroy = cudnnDestroy,
      .cudnn_set_stream = cudnnSetStream,
      .create_descriptor = cudnnBackendCreateDescriptor,
      .destroy_descriptor = cudnnBackendDestroyDescriptor,
      .set_attribute = cudnnBackendSetAttribute,
      .get_attribute = cudnnBackendGetAttribute,
      .finalize = cudnnBackendFinalize,
      .execute = cudnnBackendExecute,
      .cublas_create = cublasCreate,
      .cublas_destroy = cublasDestroy,
      .cublas_set_stream = cublasSetStream,
      .cublas_set_math_mode = cublasSetMathMode,
      .cublas_set_workspace = cublasSetWorkspace,
      .cublas_status_string = cublasGetStatusString,
      .gemm = cublasGemmEx,
  };
  return &kLibraries;
}

}  // namespace strata::cuda

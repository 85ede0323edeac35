// In place of libraries.cc: kernels/fake_cuda's functions.
#include "kernels/cuda/cudnn/libraries.h"

namespace strata::cuda {

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

#ifndef STRATA_KERNELS_CUDA_CUDNN_LIBRARIES_H_
#define STRATA_KERNELS_CUDA_CUDNN_LIBRARIES_H_

#include <cublas_v2.h>
#include <cudnn.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::cuda {

// cublas_v2.h has macros for some names, and templates of others beside the functions in C.
using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n,
                              int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                              const void* b, cudaDataType b_type, int ldb, const void* beta,
                              void* c, cudaDataType c_type, int ldc, cublasComputeType_t compute,
                              cublasGemmAlgo_t algorithm);

// The functions that we call.
struct Libraries {
  decltype(&cudnnGetVersion) cudnn_version;
  decltype(&cudnnGetErrorString) cudnn_error_string;
  decltype(&cudnnGetLastErrorString) cudnn_last_error;
  decltype(&cudnnCreate) cudnn_create;
  decltype(&cudnnDestroy) cudnn_destroy;
  decltype(&cudnnSetStream) cudnn_set_stream;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;

  cublasStatus_t (*cublas_create)(cublasHandle_t*);
  cublasStatus_t (*cublas_destroy)(cublasHandle_t);
  cublasStatus_t (*cublas_set_stream)(cublasHandle_t, cudaStream_t);
  cublasStatus_t (*cublas_set_math_mode)(cublasHandle_t, cublasMath_t);
  cublasStatus_t (*cublas_set_workspace)(cublasHandle_t, void*, size_t);
  const char* (*cublas_status_string)(cublasStatus_t);
  GemmEx* gemm;

  // What a call said, as in "cuDNN: cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM: ...".
  absl::Status Check(const char* call, cudnnStatus_t status) const;
  absl::Status Check(const char* call, cublasStatus_t status) const;
};

// Loads both on the first call, from the plugin's option cudnn=DIR if it is given. Errors: those of
// FindLibrary; FailedPrecondition (a function is missing: another version).
absl::StatusOr<const Libraries*> LoadLibraries();

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_LIBRARIES_H_

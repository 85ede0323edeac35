#ifndef STRATA_KERNELS_CUDA_CUDNN_LIBRARIES_H_
#define STRATA_KERNELS_CUDA_CUDNN_LIBRARIES_H_

#include <cublas_v2.h>
#include <cudnn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace strata::cuda {

// cublas_v2.h has macros for some names, and templates for others beside the C functions.
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

  // Turns a call's result into a status such as "cuDNN: cudnnBackendExecute:
  // CUDNN_STATUS_BAD_PARAM: ...".
  absl::Status Check(const char* call, cudnnStatus_t status) const;
  absl::Status Check(const char* call, cublasStatus_t status) const;
};

inline absl::Status Libraries::Check(const char* call, cudnnStatus_t status) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char message[256] = {};
  cudnn_last_error(message, sizeof message);
  const std::string text = absl::StrCat("cuDNN: ", call, ": ", cudnn_error_string(status),
                                        message[0] == '\0' ? "" : ": ", message);
  // 3000 to 3999: not supported.
  return status / 1000 == 3 ? absl::UnimplementedError(text) : absl::InternalError(text);
}

inline absl::Status Libraries::Check(const char* call, cublasStatus_t status) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuBLAS: ", call, ": ", cublas_status_string(status)));
}

// Loads both on the first call, from the plugin's option cudnn=DIR if it is given. Errors: those of
// FindLibrary; FailedPrecondition (a function is missing: another version).
absl::StatusOr<const Libraries*> LoadLibraries();

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_LIBRARIES_H_

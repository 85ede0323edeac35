#include <cublas_v2.h>

#include <memory>

#include "kernels/fake_cuda/products.h"
#include "kernels/fake_cuda/streams.h"

using fake_cuda::Values;

struct FakeCublas {
  const int device = fake_cuda::CurrentDevice();
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;
  int math = CUBLAS_DEFAULT_MATH;
};

namespace {

size_t BytesOf(cudaDataType type) { return type == CUDA_R_16BF ? 2 : 4; }

// Columns after each other: what a matrix of these rows and columns takes.
size_t Elements(int rows, int columns, int leading) {
  return static_cast<size_t>(leading) * (columns - 1) + rows;
}

struct Matrix {
  const void* at;
  cudaDataType type;
  int rows, columns, leading;

  bool IsGood() const {
    return at != nullptr && reinterpret_cast<uintptr_t>(at) % BytesOf(type) == 0 && rows > 0 &&
           columns > 0 && leading >= rows;
  }
  // Null `at`: not all of it is allocated.
  Values Real(bool rounds) const {
    const auto real = fake_cuda::Reach(at, Elements(rows, columns, leading) * BytesOf(type));
    return {real.value_or(nullptr), type == CUDA_R_16BF, rounds};
  }
};

}  // namespace

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = std::make_unique<FakeCublas>().release();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  const std::unique_ptr<FakeCublas> owned(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(workspace) % 256 != 0 || !fake_cuda::Reach(workspace, bytes)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  handle->workspace = workspace;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "the operation completed successfully";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
  }
  return "unknown";
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
                            cublasOperation_t transpose_b, int m, int n, int k, const void* alpha,
                            const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
  const bool at = transpose_a == CUBLAS_OP_T, bt = transpose_b == CUBLAS_OP_T;
  const Matrix first = {a, a_type, at ? k : m, at ? m : k, lda};
  const Matrix second = {b, b_type, bt ? n : k, bt ? k : n, ldb};
  const Matrix result = {c, c_type, m, n, ldc};
  if (!first.IsGood() || !second.IsGood() || !result.IsGood() || handle->workspace == nullptr ||
      *static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0 ||
      fake_cuda::CurrentDevice() != handle->device) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool rounds = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  if (a_type != b_type || (a_type == CUDA_R_32F && c_type != CUDA_R_32F) ||
      (rounds && a_type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  // Parts of sums may be kept in the result's type unless that is forbidden.
  const bool rounds_sums = c_type == CUDA_R_16BF &&
                           (handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 0;
  handle->stream->Add([=] {
    if (fake_cuda::Sticky() != cudaSuccess) return;
    const Values x = first.Real(rounds), y = second.Real(rounds), out = result.Real(false);
    if (x.at == nullptr || y.at == nullptr || out.at == nullptr) {
      return fake_cuda::Fail(cudaErrorIllegalAddress);
    }
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) {
        double sum = 0;
        for (int l = 0; l < k; ++l) {
          const size_t in_a =
              at ? l + static_cast<size_t>(i) * lda : i + static_cast<size_t>(l) * lda;
          const size_t in_b =
              bt ? j + static_cast<size_t>(l) * ldb : l + static_cast<size_t>(j) * ldb;
          sum += static_cast<double>(x.Get(in_a)) * y.Get(in_b);
          if (rounds_sums) sum = fake_cuda::RoundToBFloat16(static_cast<float>(sum));
        }
        out.Set(i + static_cast<size_t>(j) * ldc, sum);
      }
    }
  });
  return fake_cuda::Return(cudaSuccess) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                       : CUBLAS_STATUS_EXECUTION_FAILED;
}

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cudnn/libraries.h"

namespace strata::cuda {

absl::Status Libraries::Check(const char* call, cudnnStatus_t status) const {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char message[256] = {};
  cudnn_last_error(message, sizeof message);
  const std::string text = absl::StrCat("cuDNN: ", call, ": ", cudnn_error_string(status),
                                        message[0] == '\0' ? "" : ": ", message);
  // 3000 to 3999: not supported.
  return status / 1000 == 3 ? absl::UnimplementedError(text) : absl::InternalError(text);
}

absl::Status Libraries::Check(const char* call, cublasStatus_t status) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuBLAS: ", call, ": ", cublas_status_string(status)));
}

}  // namespace strata::cuda

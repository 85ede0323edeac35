#ifndef STRATA_KERNELS_CUDA_CUDNN_PLAN_H_
#define STRATA_KERNELS_CUDA_CUDNN_PLAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cudnn/descriptor.h"
#include "kernels/device/layers.h"

namespace strata::cuda {

// A way to compute one pass of a convolution, and what it takes.
struct Plan {
  std::shared_ptr<const void> graph;  // what the others refer to
  Descriptor configuration;
  Descriptor plan;
  int64_t engine = 0;  // cuDNN's number
  int64_t workspace_bytes = 0;
};

// Ways that cuDNN has on this device, the most promising ones first, at most so many. Errors:
// Unimplemented (none).
absl::StatusOr<std::vector<Plan>> MakePlans(const Libraries& libraries, cudnnHandle_t handle,
                                            device::ConvolutionPass pass,
                                            const device::ConvolutionShape& shape,
                                            device::Precision precision, size_t workspace_bytes_max,
                                            size_t most);

// Operands as device::Layers::Convolve has them. The handle's stream does the work.
absl::Status Execute(const Libraries& libraries, cudnnHandle_t handle, const Plan& plan,
                     const void* a, const void* b, void* out, void* workspace);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_PLAN_H_

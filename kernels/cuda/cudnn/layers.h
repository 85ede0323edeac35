#ifndef STRATA_KERNELS_CUDA_CUDNN_LAYERS_H_
#define STRATA_KERNELS_CUDA_CUDNN_LAYERS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/layers.h"

namespace strata::cuda {

// Contract: device::Device::OpenLayers, of `device`, which outlives the answer.
absl::StatusOr<std::shared_ptr<device::Layers>> OpenLayers(device::Device& device,
                                                           const device::LayersOptions& options);
}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_CUDNN_LAYERS_H_

// In place of layers.cc where the build found no cudnn.h.
#include "absl/status/status.h"
#include "kernels/cuda/cudnn/layers.h"

namespace strata::cuda {

absl::StatusOr<std::shared_ptr<device::Layers>> OpenLayers(device::Device&,
                                                           const device::LayersOptions&) {
  return absl::UnimplementedError(
      "the plugin was built without cuDNN: cudnn.h was not found beside CUDA's headers");
}

}  // namespace strata::cuda

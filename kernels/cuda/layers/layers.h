#ifndef STRATA_KERNELS_CUDA_LAYERS_LAYERS_H_
#define STRATA_KERNELS_CUDA_LAYERS_LAYERS_H_

#include "kernels/device/layer_kernels.h"

// Contracts: device::LayerKernels.
namespace strata::cuda {

const device::LayerKernels& TheLayerKernels();

absl::Status Transpose(device::Stream& stream, device::Element from, const void* in,
                       device::Element to, void* out, size_t count, size_t rows, size_t columns);
absl::Status AddBias(device::Stream& stream, const device::RowsShape& shape, const float* bias,
                     bool relu, void* values);
absl::Status SumRows(device::Stream& stream, const device::RowsShape& shape, const void* values,
                     float* sums, float* work);
absl::Status Relu(device::Stream& stream, device::Element element, const void* in, void* out,
                  size_t n);
absl::Status ReluBackward(device::Stream& stream, device::Element element, const void* output,
                          void* gradient, size_t n);
absl::Status Add(device::Stream& stream, device::Element element, const void* a, const void* b,
                 bool relu, void* out, size_t n);
absl::Status Dropout(device::Stream& stream, const device::DropoutPass& pass, const void* in,
                     void* out);
absl::Status CopyChannels(device::Stream& stream, device::Element element, size_t rows,
                          uint32_t count, device::ChannelSlice from, const void* in,
                          device::ChannelSlice to, void* out);
absl::Status AddShortcut(device::Stream& stream, const device::ShortcutShape& shape,
                         const void* values, const void* from, void* out);
absl::Status ShortcutBackward(device::Stream& stream, const device::ShortcutShape& shape,
                              const void* gradient, void* from_gradient);
absl::Status BatchNorm(device::Stream& stream, const device::BatchNormPass& pass);
absl::Status BatchNormInference(device::Stream& stream, const device::BatchNormPass& pass);
absl::Status BatchNormBackward(device::Stream& stream, const device::BatchNormGradient& pass);
absl::Status MaxPool(device::Stream& stream, const device::WindowShape& shape, const void* in,
                     void* out, uint8_t* winners);
absl::Status MaxPoolBackward(device::Stream& stream, const device::WindowShape& shape,
                             const void* gradient, const uint8_t* winners, void* in_gradient);
absl::Status AveragePool(device::Stream& stream, const device::WindowShape& shape, const void* in,
                         void* out);
absl::Status AveragePoolBackward(device::Stream& stream, const device::WindowShape& shape,
                                 const void* gradient, void* in_gradient);
absl::Status SoftmaxLoss(device::Stream& stream, const float* logits, size_t samples,
                         uint32_t classes, const uint16_t* labels, device::SampleLoss* losses,
                         device::Element element, void* gradient);
absl::Status Scale(device::Stream& stream, const float* in, float factor, float* out, size_t n);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_LAYERS_LAYERS_H_

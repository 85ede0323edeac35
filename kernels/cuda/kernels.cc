#include "kernels/cuda/codec/codecs.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/update/update.h"

namespace strata::cuda {

const device::DeviceKernels& Kernels() {
  static const device::DeviceKernels kKernels = {
      .sum = Sum,
      .optimize = Optimize,
      .compensate = Compensate,
      .check_finite = CheckFinite,
      .float16 = Float16Codec(),
      .bfloat16 = BFloat16Codec(),
      .int8 = Int8Codec(),
      .one_bit = OneBitCodec(),
      .sparse = {Accumulate, Select, Sample, Count, SelectBetween, Keep, IndicesAscend, AddSparse,
                 EncodeLargest},
  };
  return kKernels;
}

const device::LayerKernels& TheLayerKernels() {
  static const device::LayerKernels kKernels = {
      .transpose = Transpose,
      .add_bias = AddBias,
      .sum_rows = SumRows,
      .relu = Relu,
      .relu_backward = ReluBackward,
      .add = Add,
      .dropout = Dropout,
      .copy_channels = CopyChannels,
      .add_shortcut = AddShortcut,
      .shortcut_backward = ShortcutBackward,
      .batch_norm = BatchNorm,
      .batch_norm_inference = BatchNormInference,
      .batch_norm_backward = BatchNormBackward,
      .max_pool = MaxPool,
      .max_pool_backward = MaxPoolBackward,
      .average_pool = AveragePool,
      .average_pool_backward = AveragePoolBackward,
      .softmax_loss = SoftmaxLoss,
      .scale = Scale,
  };
  return kKernels;
}

}  // namespace strata::cuda

#ifndef STRATA_KERNELS_DEVICE_LAYER_KERNELS_H_
#define STRATA_KERNELS_DEVICE_LAYER_KERNELS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/device/device.h"

namespace strata::device {

enum class Element { kFloat32, kBFloat16 };
constexpr size_t ElementBytes(Element element) { return element == Element::kBFloat16 ? 2 : 4; }

// Values of `rows` places (of all images of a batch), each with its channels contiguous.
struct RowsShape {
  Element element = Element::kFloat32;
  size_t rows = 0;
  uint32_t channels = 0;

  size_t elements() const { return rows * channels; }
};

// Windows over images; a last partial one is omitted. Padding, below the kernel, never wins.
struct WindowShape {
  Element element = Element::kFloat32;
  uint32_t batch = 1, channels = 1, height = 1, width = 1;  // of the source
  uint32_t kernel_height = 1, kernel_width = 1, stride = 1, padding = 0;

  uint32_t output_height() const { return (height + 2 * padding - kernel_height) / stride + 1; }
  uint32_t output_width() const { return (width + 2 * padding - kernel_width) / stride + 1; }
};
// Arguments of a kernel of max pooling.
inline constexpr uint32_t kWindowElementsMax = 256;

// The maximum number of partial sums of kernels that sum rows, and the work space for them with
// this many channels or fewer.
inline constexpr size_t kRowBlocksMax = 512, kRowSumsMax = size_t{1} << 17;
constexpr size_t RowBlocksMax(size_t channels) {
  return std::clamp<size_t>(kRowSumsMax / std::max<size_t>(channels, 1), 1, kRowBlocksMax);
}
constexpr size_t RowWorkBytes(size_t channels) {
  const size_t sums = std::max(channels, std::min(kRowSumsMax, kRowBlocksMax * channels));
  return sums * 2 * sizeof(float);
}

// Batch normalisation (Ioffe & Szegedy 2015) over rows, optional operations in the same pass, and
// what backward needs.
struct BatchNormPass {
  RowsShape shape;
  float epsilon = 0, momentum = 0;
  const void* source = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  float *running_mean = nullptr, *running_variance = nullptr;
  const void* addend = nullptr;  // added to the outcome; null: nothing is
  bool relu = false;             // after that
  void* output = nullptr;
  float* saved = nullptr;  // 4 x channels
  float* work = nullptr;   // RowWorkBytes
};

struct BatchNormGradient {
  RowsShape shape;
  const void* source = nullptr;
  const void* output = nullptr;  // with relu and an addend
  bool relu = false;
  const float* weight = nullptr;
  const float* saved = nullptr;
  // The gradient of the output. With relu it becomes that of the preceding sum, which is also the
  // addend's.
  void* gradient = nullptr;
  void* source_gradient = nullptr;  // not `gradient`; null: not wanted
  float *weight_gradient = nullptr, *bias_gradient = nullptr;
  float* work = nullptr;
};

// The sum of a block with a shortcut of every stride-th row and column of an image with fewer
// channels; the other channels are zero.
struct ShortcutShape {
  Element element = Element::kFloat32;
  uint32_t batch = 1;
  uint32_t channels = 1, height = 1, width = 1;                 // where it is added
  uint32_t from_channels = 1, from_height = 1, from_width = 1;  // where it comes from
  uint32_t stride = 1;
};

// Some channels of each row.
struct ChannelSlice {
  uint32_t channels = 0;  // of a row
  uint32_t first = 0;
};

// Numbers of a counter-based generator (common/random.h): element (c, h, w) of sample n
// draws number n * channels * height * width + (c * height + h) * width + w of `key`.
struct DropoutPass {
  Element element = Element::kFloat32;
  uint32_t batch = 1, channels = 1, places = 1;  // places = height * width
  uint64_t key = 0;
  float rate = 0;
};

struct SampleLoss {
  float loss = 0;
  uint32_t correct = 0;  // 1: the largest logit is the label's
};

// The kernels of layers, other than products. Values are at multiples of 16 bytes, fp32 weights and
// their gradients at multiples of 4; outputs are separate from inputs, unless said otherwise.
// Errors: those of Stream; InvalidArgument.
struct LayerKernels {
  // out[i][c][r] = in[i][r][c] for `count` matrices, converted.
  absl::Status (*transpose)(Stream& stream, Element from, const void* in, Element to, void* out,
                            size_t count, size_t rows, size_t columns);
  // Adds in place, with relu after it.
  absl::Status (*add_bias)(Stream& stream, const RowsShape& shape, const float* bias, bool relu,
                           void* values);
  // sums[c] over all rows.
  absl::Status (*sum_rows)(Stream& stream, const RowsShape& shape, const void* values, float* sums,
                           float* work);
  // May be in place.
  absl::Status (*relu)(Stream& stream, Element element, const void* in, void* out, size_t n);
  // Zeroes the gradient where the output is zero.
  absl::Status (*relu_backward)(Stream& stream, Element element, const void* output, void* gradient,
                                size_t n);
  // a + b, then relu; may be in place.
  absl::Status (*add)(Stream& stream, Element element, const void* a, const void* b, bool relu,
                      void* out, size_t n);
  // Its own backward pass, with the same key; may be in place.
  absl::Status (*dropout)(Stream& stream, const DropoutPass& pass, const void* in, void* out);
  absl::Status (*copy_channels)(Stream& stream, Element element, size_t rows, uint32_t count,
                                ChannelSlice from, const void* in, ChannelSlice to, void* out);
  // `values` may be `out`.
  absl::Status (*add_shortcut)(Stream& stream, const ShortcutShape& shape, const void* values,
                               const void* from, void* out);
  absl::Status (*shortcut_backward)(Stream& stream, const ShortcutShape& shape,
                                    const void* gradient, void* from_gradient);

  absl::Status (*batch_norm)(Stream& stream, const BatchNormPass& pass);
  // Uses the running statistics; `work` and `momentum` are not used.
  absl::Status (*batch_norm_inference)(Stream& stream, const BatchNormPass& pass);
  absl::Status (*batch_norm_backward)(Stream& stream, const BatchNormGradient& pass);

  // winners: for each output, which element of its window won. Null: not needed.
  absl::Status (*max_pool)(Stream& stream, const WindowShape& shape, const void* in, void* out,
                           uint8_t* winners);
  absl::Status (*max_pool_backward)(Stream& stream, const WindowShape& shape, const void* gradient,
                                    const uint8_t* winners, void* in_gradient);
  // The shape has no padding.
  absl::Status (*average_pool)(Stream& stream, const WindowShape& shape, const void* in, void* out);
  absl::Status (*average_pool_backward)(Stream& stream, const WindowShape& shape,
                                        const void* gradient, void* in_gradient);

  // Computes SoftmaxCrossEntropy (training/nn/network/network.h) for each of `samples` rows of fp32
  // logits; `gradient` may be null.
  absl::Status (*softmax_loss)(Stream& stream, const float* logits, size_t samples,
                               uint32_t classes, const uint16_t* labels, SampleLoss* losses,
                               Element element, void* gradient);
  // out = factor * in.
  absl::Status (*scale)(Stream& stream, const float* in, float factor, float* out, size_t n);
};

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_LAYER_KERNELS_H_

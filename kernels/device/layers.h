#ifndef STRATA_KERNELS_DEVICE_LAYERS_H_
#define STRATA_KERNELS_DEVICE_LAYERS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/layer_kernels.h"

namespace strata::device {

// The format of layers' products; sums are always fp32.
enum class Precision {
  kFloat32,
  kTensorFloat32,  // fp32 values; products may use 10 bits of their mantissas
  kBFloat16,       // values and gradients between layers are bf16
};

constexpr Element ElementFor(Precision precision) {
  return precision == Precision::kBFloat16 ? Element::kBFloat16 : Element::kFloat32;
}

// Square kernel, zero padding on all sides.
struct ConvolutionShape {
  uint32_t batch = 1, channels = 1, height = 1, width = 1;  // of the source
  uint32_t outputs = 1, kernel = 1, padding = 0, stride = 1;

  auto operator<=>(const ConvolutionShape&) const = default;
  uint32_t output_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  uint32_t output_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  size_t source_elements() const { return size_t{batch} * height * width * channels; }
  size_t weight_elements() const { return size_t{outputs} * kernel * kernel * channels; }
  size_t output_elements() const {
    return size_t{batch} * output_height() * output_width() * outputs;
  }
};

enum class ConvolutionPass { kForward, kSourceGradient, kWeightGradient };

// C = op(A) op(B): m x n from m x k and k x n, row-major. A transposed matrix is stored as its
// transpose: A as k x m, B as n x k.
struct MatrixProductShape {
  size_t m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
};

struct LayersOptions {
  Precision precision = Precision::kFloat32;
  size_t workspace_bytes_max = size_t{1} << 30;  // that an algorithm may take
  // Gets a line for each chosen algorithm.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

// The operations of network layers on one device, in a stream of its own: products by the vendor's
// libraries, everything else by our kernels. Images are stored as batch x height x width x
// channels, weights of convolutions as outputs x kernel x kernel x inputs, elements as the
// precision says (ElementFor), all at multiples of 16 bytes.
//
// Threads: one at a time. Errors: those of Stream; Internal with the library's text.
class Layers {
 public:
  virtual ~Layers() = default;

  virtual Precision precision() const = 0;
  virtual Stream& stream() = 0;
  // The kernels for this stream.
  virtual const LayerKernels& kernels() const = 0;

  // Chooses the fastest algorithm of a shape within the workspace limit, by measuring now, once per
  // shape. Errors: Unimplemented (the library has no algorithm), ResourceExhausted.
  virtual absl::Status Prepare(ConvolutionPass pass, const ConvolutionShape& shape) = 0;
  // The pass's operands in this order: source and weights to output; output's gradient and weights
  // to source's gradient; source and output's gradient to weights' gradient.
  // After Prepare of the same shape. Errors: FailedPrecondition (without it), Internal.
  virtual absl::Status Convolve(ConvolutionPass pass, const ConvolutionShape& shape, const void* a,
                                const void* b, void* out) = 0;

  // `out` is fp32 if requested, otherwise as the precision says.
  virtual absl::Status Multiply(const MatrixProductShape& shape, const void* a, const void* b,
                                Element out_element, void* out) = 0;
};

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_LAYERS_H_

#include "training/nn/network/model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/random.h"

namespace strata::training {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 31;

// The block that the layers so far have begun.
struct OpenBlock {
  Shape forked;             // what the Fork met
  std::vector<Shape> ends;  // of the branches that have ended
};

// Visitor: a layer's output and tensors for the input `in`. Errors say what does not fit.
class ShapeOf {
 public:
  // `block` is followed here.
  ShapeOf(const std::string& name, const Shape& in, bool last, std::optional<OpenBlock>* block)
      : name_(name), in_(in), last_(last), block_(*block) {}

  absl::StatusOr<LayerShape> operator()(const Convolution& layer) const {
    const uint64_t height = uint64_t{in_.height} + 2 * uint64_t{layer.padding};
    const uint64_t width = uint64_t{in_.width} + 2 * uint64_t{layer.padding};
    if (layer.outputs == 0 || layer.kernel == 0) return NotFit("has no outputs or no kernel");
    if (layer.stride == 0) return NotFit("has no stride");
    if (layer.kernel > height || layer.kernel > width) return NotFit("has too large a kernel");
    LayerShape shape =
        To({layer.outputs, static_cast<uint32_t>((height - layer.kernel) / layer.stride + 1),
            static_cast<uint32_t>((width - layer.kernel) / layer.stride + 1)});
    const uint64_t inputs = uint64_t{in_.channels} * layer.kernel * layer.kernel;
    shape.weights.push_back(
        Weight({layer.outputs, in_.channels, layer.kernel, layer.kernel}, inputs, layer.outputs));
    if (layer.bias) shape.weights.push_back(Constant("bias", layer.outputs, 0.0f));
    return shape;
  }
  absl::StatusOr<LayerShape> operator()(const InnerProduct& layer) const {
    if (layer.outputs == 0) return NotFit("has no outputs");
    LayerShape shape = To({layer.outputs, 1, 1});
    shape.weights.push_back(Weight({layer.outputs, in_.Elements()}, in_.Elements(), layer.outputs));
    shape.weights.push_back(Constant("bias", layer.outputs, 0.0f));
    return shape;
  }
  absl::StatusOr<LayerShape> operator()(const MaxPool& layer) const {
    if (layer.padding > 0 && layer.padding >= layer.kernel) {
      return NotFit("has a padding of a whole kernel");
    }
    return Pool(layer.kernel, layer.stride, layer.padding);
  }
  absl::StatusOr<LayerShape> operator()(const AveragePool& layer) const {
    return Pool(layer.kernel, layer.stride, 0);
  }
  absl::StatusOr<LayerShape> operator()(const GlobalAveragePool&) const {
    return To({in_.channels, 1, 1});
  }
  absl::StatusOr<LayerShape> operator()(const Relu&) const { return To(in_); }
  absl::StatusOr<LayerShape> operator()(const BatchNorm&) const {
    LayerShape shape = To(in_);
    shape.weights.push_back(Constant("weight", in_.channels, 1.0f));
    shape.weights.push_back(Constant("bias", in_.channels, 0.0f));
    shape.buffers.push_back(Constant("running_mean", in_.channels, 0.0f));
    shape.buffers.push_back(Constant("running_var", in_.channels, 1.0f));
    return shape;
  }
  absl::StatusOr<LayerShape> operator()(const Dropout& layer) const {
    if (!(layer.rate >= 0.0f && layer.rate < 1.0f)) return NotFit("has a rate outside [0, 1)");
    return To(in_);
  }
  absl::StatusOr<LayerShape> operator()(const Flatten&) const {
    return To({static_cast<uint32_t>(in_.Elements()), 1, 1});
  }
  absl::StatusOr<LayerShape> operator()(const Fork&) const {
    if (block_.has_value()) return NotFit("is within another fork's block");
    block_ = OpenBlock{in_, {}};
    return To(in_);
  }
  absl::StatusOr<LayerShape> operator()(const Branch&) const {
    if (!block_.has_value()) return NotFit("has no fork before it");
    block_->ends.push_back(in_);
    return To(block_->forked);
  }
  absl::StatusOr<LayerShape> operator()(const Join& layer) const {
    if (!block_.has_value()) return NotFit("has no fork before it");
    const OpenBlock block = *std::exchange(block_, std::nullopt);
    if (layer.stride == 0) return NotFit("has no stride");
    if (block.ends.empty()) return JoinShortcut(block.forked, layer.stride);
    if (layer.stride != 1) return NotFit("has a stride, but no shortcut to take it");
    for (const Shape& end : block.ends) {
      if (end != in_) return NotFit("joins branches of other shapes");
    }
    return To(in_);
  }
  absl::StatusOr<LayerShape> operator()(const Concat&) const {
    if (!block_.has_value()) return NotFit("has no fork before it");
    const OpenBlock block = *std::exchange(block_, std::nullopt);
    Shape out = in_;
    for (const Shape& end : block.ends) {
      if (end.height != in_.height || end.width != in_.width) {
        return NotFit("joins branches of other heights or widths");
      }
      out.channels += end.channels;
    }
    return To(out);
  }

 private:
  absl::StatusOr<LayerShape> JoinShortcut(const Shape& from, uint32_t stride) const {
    const bool fits = in_.channels >= from.channels &&
                      in_.height == (from.height - 1) / stride + 1 &&
                      in_.width == (from.width - 1) / stride + 1;
    return fits ? To(in_) : absl::StatusOr<LayerShape>(NotFit("does not meet its fork's shape"));
  }
  absl::StatusOr<LayerShape> Pool(uint32_t kernel, uint32_t stride, uint32_t padding) const {
    if (kernel == 0 || stride == 0) return NotFit("has no kernel or no stride");
    const uint64_t height = uint64_t{in_.height} + 2 * uint64_t{padding};
    const uint64_t width = uint64_t{in_.width} + 2 * uint64_t{padding};
    if (kernel > height || kernel > width) return NotFit("has too large a window");
    return To({in_.channels, static_cast<uint32_t>((height - kernel) / stride + 1),
               static_cast<uint32_t>((width - kernel) / stride + 1)});
  }
  LayerShape To(const Shape& output) const {
    LayerShape shape;
    shape.input = in_;
    shape.output = output;
    return shape;
  }
  TensorSpec Weight(std::vector<uint64_t> shape, uint64_t inputs, uint64_t outputs) const {
    TensorSpec tensor{absl::StrCat(name_, ".weight"), std::move(shape)};
    tensor.uniform = static_cast<float>(std::sqrt(6.0 / (last_ ? inputs + outputs : inputs)));
    return tensor;
  }
  TensorSpec Constant(const char* what, uint64_t elements, float value) const {
    TensorSpec tensor{absl::StrCat(name_, ".", what), {elements}};
    tensor.constant = value;
    tensor.decay_multiplier = 0.0f;
    return tensor;
  }
  absl::Status NotFit(const char* why) const {
    return absl::InvalidArgumentError(absl::StrCat("layer ", name_, " ", why, " for ", in_.channels,
                                                   " x ", in_.height, " x ", in_.width, " inputs"));
  }

  const std::string& name_;
  const Shape& in_;
  const bool last_;
  std::optional<OpenBlock>& block_;
};

std::vector<TensorSpec> Collect(const ModelSpec& model,
                                std::vector<TensorSpec> LayerShape::*tensors) {
  std::vector<TensorSpec> all;
  auto shapes = FollowShapes(model).value();
  for (LayerShape& layer : shapes) {
    for (TensorSpec& tensor : layer.*tensors) all.push_back(std::move(tensor));
  }
  return all;
}

}  // namespace

uint64_t TensorSpec::Elements() const {
  uint64_t elements = 1;
  for (uint64_t size : shape) elements *= size;
  return elements;
}

absl::StatusOr<std::vector<LayerShape>> FollowShapes(const ModelSpec& model) {
  if (model.layers.empty()) return absl::InvalidArgumentError("the model has no layers");
  if (model.input.Elements() > kElementsMax) {
    return absl::InvalidArgumentError("the images are too large");
  }
  std::vector<LayerShape> shapes;
  Shape shape = model.input;
  std::optional<OpenBlock> block;
  for (const LayerSpec& layer : model.layers) {
    const bool last = &layer == &model.layers.back();
    auto next = std::visit(ShapeOf(layer.name, shape, last, &block), layer.kind);
    if (!next.ok()) return next.status();
    shape = next->output;
    uint64_t largest = shape.Elements();
    for (const TensorSpec& tensor : next->weights) largest = std::max(largest, tensor.Elements());
    if (shape.channels > 1u << 24 || largest > kElementsMax) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", layer.name, " is too large"));
    }
    shapes.push_back(*std::move(next));
  }
  if (block.has_value()) return absl::InvalidArgumentError("the last fork has no join after it");
  if (shape.height != 1 || shape.width != 1) {
    return absl::InvalidArgumentError("the last layer does not give one logit per class");
  }
  return shapes;
}

std::vector<TensorSpec> ListWeights(const ModelSpec& model) {
  return Collect(model, &LayerShape::weights);
}

std::vector<TensorSpec> ListBuffers(const ModelSpec& model) {
  return Collect(model, &LayerShape::buffers);
}

void Initialize(const TensorSpec& tensor, uint64_t seed, uint64_t index, absl::Span<float> values) {
  constexpr uint64_t kWeightStream = 0x77656967687473u;
  const uint64_t key = RandomKey(RandomKey(seed, kWeightStream), index);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.constant + tensor.uniform * (2.0f * RandomUniform(key, i) - 1.0f);
  }
}

}  // namespace strata::training

#include "worker/nn/model.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "worker/random/random.h"

namespace strata::worker {
namespace {

constexpr uint64_t kElementsMax = uint64_t{1} << 31;

// What one layer makes of `in`: its output and tensors. Errors say what does not fit.
class ShapeOf {
 public:
  // `forked`: what the Fork before has met; it is followed here.
  ShapeOf(const std::string& name, const Shape& in, bool last, std::optional<Shape>* forked)
      : name_(name), in_(in), last_(last), forked_(*forked) {}

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
    return Pool(layer.kernel, layer.stride);
  }
  absl::StatusOr<LayerShape> operator()(const AveragePool& layer) const {
    return Pool(layer.kernel, layer.stride);
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
    if (forked_.has_value()) return NotFit("is within another fork's block");
    forked_ = in_;
    return To(in_);
  }
  absl::StatusOr<LayerShape> operator()(const Join& layer) const {
    if (!forked_.has_value()) return NotFit("has no fork before it");
    const Shape from = *std::exchange(forked_, std::nullopt);
    const uint32_t stride = layer.stride;
    if (stride == 0) return NotFit("has no stride");
    const bool fits = in_.channels >= from.channels &&
                      in_.height == (from.height - 1) / stride + 1 &&
                      in_.width == (from.width - 1) / stride + 1;
    return fits ? To(in_) : absl::StatusOr<LayerShape>(NotFit("does not meet its fork's shape"));
  }

 private:
  absl::StatusOr<LayerShape> Pool(uint32_t kernel, uint32_t stride) const {
    if (kernel == 0 || stride == 0) return NotFit("has no kernel or no stride");
    if (kernel > in_.height || kernel > in_.width) return NotFit("has too large a window");
    return To(
        {in_.channels, (in_.height - kernel) / stride + 1, (in_.width - kernel) / stride + 1});
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
  std::optional<Shape>& forked_;
};

std::vector<LayerSpec> Mlp(uint32_t classes) {
  return {{"flatten", Flatten{}},     {"fc1", InnerProduct{256}}, {"relu1", Relu{}},
          {"fc2", InnerProduct{128}}, {"relu2", Relu{}},          {"fc3", InnerProduct{classes}}};
}

// LeCun et al. 1998 with ReLU and max pooling. ReLU is monotone, so it may follow the pooling,
// where it has a quarter of the values to look at, and gives the same function.
std::vector<LayerSpec> LeNet5() {
  return {{"conv1", Convolution{.outputs = 6, .kernel = 5, .padding = 2}},
          {"pool1", MaxPool{}},
          {"relu1", Relu{}},
          {"conv2", Convolution{.outputs = 16, .kernel = 5}},
          {"pool2", MaxPool{}},
          {"relu2", Relu{}},
          {"flatten", Flatten{}},
          {"fc1", InnerProduct{120}},
          {"relu3", Relu{}},
          {"fc2", InnerProduct{84}},
          {"relu4", Relu{}},
          {"fc3", InnerProduct{10}}};
}

// 824,554 parameters for 1 x 28 x 28 images and 10 classes. Convolutions have no bias where batch
// normalisation would take it out again.
std::vector<LayerSpec> Cnn(uint32_t classes) {
  return {{"conv1", Convolution{.outputs = 32, .kernel = 3, .padding = 1, .bias = false}},
          {"bn1", BatchNorm{}},
          {"pool1", MaxPool{}},
          {"relu1", Relu{}},
          {"conv2", Convolution{.outputs = 64, .kernel = 3, .padding = 1, .bias = false}},
          {"bn2", BatchNorm{}},
          {"pool2", MaxPool{}},
          {"relu2", Relu{}},
          {"flatten", Flatten{}},
          {"fc1", InnerProduct{256}},
          {"relu3", Relu{}},
          {"dropout", Dropout{0.25f}},
          {"fc2", InnerProduct{classes}}};
}

// He et al. 2016, section 4.2, with n = 1: three stages of one block each.
std::vector<LayerSpec> ResNet8(const Shape& input, uint32_t classes) {
  const auto convolution = [](uint32_t outputs, uint32_t stride) {
    return Convolution{
        .outputs = outputs, .kernel = 3, .padding = 1, .stride = stride, .bias = false};
  };
  std::vector<LayerSpec> layers = {
      {"conv1", convolution(16, 1)}, {"bn1", BatchNorm{}}, {"relu1", Relu{}}};
  uint32_t size = input.height;
  for (const auto& [block, outputs, stride] :
       {std::tuple{"block1", 16u, 1u}, {"block2", 32u, 2u}, {"block3", 64u, 2u}}) {
    const auto add = [&, block = block](const char* name, auto kind) {
      layers.push_back({absl::StrCat(block, ".", name), kind});
    };
    add("fork", Fork{});
    add("conv1", convolution(outputs, stride));
    add("bn1", BatchNorm{});
    add("relu1", Relu{});
    add("conv2", convolution(outputs, 1));
    add("bn2", BatchNorm{});
    add("join", Join{stride});
    add("relu2", Relu{});
    size = (size - 1) / stride + 1;
  }
  layers.push_back({"pool", AveragePool{.kernel = size, .stride = size}});
  layers.push_back({"flatten", Flatten{}});
  layers.push_back({"fc", InnerProduct{classes}});
  return layers;
}

std::vector<TensorSpec> Collect(const ModelSpec& model,
                                std::vector<TensorSpec> LayerShape::*tensors) {
  std::vector<TensorSpec> all;
  auto shapes = ShapesOf(model).value();
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

absl::StatusOr<ModelSpec> MakeModel(const std::string& name, const Shape& input, uint32_t classes) {
  ModelSpec model{name, input, {}};
  const std::string what =
      absl::StrCat("model ", name, " does not fit the data (images of ", input.channels, " x ",
                   input.height, " x ", input.width, ", ", classes, " classes): ");
  if (name == "mlp") {
    model.layers = Mlp(classes);
  } else if (name == "lenet5") {
    if (input != Shape{1, 28, 28} || classes != 10) {
      return absl::InvalidArgumentError(what + "it needs 1 x 28 x 28 and 10 classes");
    }
    model.layers = LeNet5();
  } else if (name == "cnn") {
    model.layers = Cnn(classes);
  } else if (name == "resnet8") {
    if (input.height != input.width || input.height == 0) {
      return absl::InvalidArgumentError(what + "it needs as many rows as columns");
    }
    model.layers = ResNet8(input, classes);
  } else {
    return absl::NotFoundError(
        absl::StrCat("no model '", name, "' in the zoo: mlp, lenet5, cnn and resnet8 are there"));
  }
  auto shapes = ShapesOf(model);
  if (!shapes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(what, shapes.status().message()));
  }
  return model;
}

absl::StatusOr<std::vector<LayerShape>> ShapesOf(const ModelSpec& model) {
  if (model.layers.empty()) return absl::InvalidArgumentError("the model has no layers");
  std::vector<LayerShape> shapes;
  Shape shape = model.input;
  std::optional<Shape> forked;
  for (const LayerSpec& layer : model.layers) {
    const bool last = &layer == &model.layers.back();
    auto next = std::visit(ShapeOf(layer.name, shape, last, &forked), layer.kind);
    if (!next.ok()) return next.status();
    shape = next->output;
    uint64_t largest = shape.Elements();
    for (const TensorSpec& tensor : next->weights) largest = std::max(largest, tensor.Elements());
    if (shape.channels > 1u << 24 || largest > kElementsMax) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", layer.name, " is too large"));
    }
    shapes.push_back(*std::move(next));
  }
  if (forked.has_value()) return absl::InvalidArgumentError("the last fork has no join after it");
  if (shape.height != 1 || shape.width != 1) {
    return absl::InvalidArgumentError("the last layer does not give one logit per class");
  }
  return shapes;
}

std::vector<TensorSpec> WeightsOf(const ModelSpec& model) {
  return Collect(model, &LayerShape::weights);
}

std::vector<TensorSpec> BuffersOf(const ModelSpec& model) {
  return Collect(model, &LayerShape::buffers);
}

void Initialize(const TensorSpec& tensor, uint64_t seed, uint64_t index, absl::Span<float> values) {
  constexpr uint64_t kWeightStream = 0x77656967687473u;
  const uint64_t key = RandomKey(RandomKey(seed, kWeightStream), index);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = tensor.constant + tensor.uniform * (2.0f * RandomUniform(key, i) - 1.0f);
  }
}

}  // namespace strata::worker

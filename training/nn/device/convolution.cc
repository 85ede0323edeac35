#include "training/nn/device/layer.h"

namespace strata::training::on_device {
namespace {

using device::ConvolutionPass;

class ConvolutionLayer : public Layer {
 public:
  ConvolutionLayer(const Convolution& spec, bool relu) : spec_(spec), relu_(relu) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    source_ = source;
    const Shape& in = source.shape;
    shape_ = {.batch = context.batch,
              .channels = in.channels,
              .height = in.height,
              .width = in.width,
              .outputs = spec_.outputs,
              .kernel = spec_.kernel,
              .padding = spec_.padding,
              .stride = spec_.stride};
    if (auto status = context.layers.Prepare(ConvolutionPass::kForward, shape_); !status.ok()) {
      return status;
    }
    const auto weights =
        context.memory.Allocate(shape_.weight_elements() * ElementBytes(context.element()));
    if (!weights.ok()) return weights.status();
    weights_ = *weights;
    auto output = context.NewOutput({spec_.outputs, shape_.output_height(), shape_.output_width()});
    if (output.ok()) output_ = *output;
    return output;
  }

  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool want_source_gradient) override {
    gradient_ = gradient;
    source_gradient_ = {};
    if (want_source_gradient) {
      auto status = context.layers.Prepare(ConvolutionPass::kSourceGradient, shape_);
      if (!status.ok()) return status;
      auto made = context.NewGradient(source_.shape);
      if (!made.ok()) return made.status();
      source_gradient_ = *made;
    }
    auto status = context.layers.Prepare(ConvolutionPass::kWeightGradient, shape_);
    if (!status.ok()) return status;
    // Only until it is copied to where the caller wants it.
    const auto weight_gradient =
        context.memory.Take(shape_.weight_elements() * ElementBytes(context.element()));
    if (!weight_gradient.ok()) return weight_gradient.status();
    weight_gradient_ = *weight_gradient;
    context.memory.GiveBack(weight_gradient_);
    context.GiveBack(gradient);
    return source_gradient_;
  }

  void BindWeights(absl::Span<const absl::Span<float>> weights) override {
    bound_weights_ = weights[0].data();
    if (spec_.bias) bias_ = weights[1].data();
  }
  void BindGradients(absl::Span<const absl::Span<float>> gradients) override {
    bound_gradient_ = gradients[0].data();
    if (spec_.bias) bias_gradient_ = gradients[1].data();
  }

  absl::Status Forward(const LayerContext& context, const Pass&) override {
    const auto& kernels = context.kernels();
    auto status =
        kernels.transpose(context.stream(), device::Element::kFloat32, bound_weights_,
                          context.element(), weights_, spec_.outputs, shape_.channels, window());
    if (!status.ok()) return status;
    status = context.layers.Convolve(ConvolutionPass::kForward, shape_, source_.at, weights_,
                                     output_.at);
    if (!status.ok()) return status;
    if (spec_.bias) {
      return kernels.add_bias(context.stream(), context.Rows(output_), bias_, relu_, output_.at);
    }
    if (!relu_) return absl::OkStatus();
    return kernels.relu(context.stream(), context.element(), output_.at, output_.at,
                        context.Elements(output_.shape));
  }

  absl::Status Backward(const LayerContext& context) override {
    const auto& kernels = context.kernels();
    absl::Status status;
    if (relu_) {
      status = kernels.relu_backward(context.stream(), context.element(), output_.at, gradient_.at,
                                     context.Elements(output_.shape));
    }
    if (status.ok() && spec_.bias) {
      status = kernels.sum_rows(context.stream(), context.Rows(gradient_), gradient_.at,
                                bias_gradient_, context.row_work);
    }
    if (status.ok() && source_gradient_.at != nullptr) {
      status = context.layers.Convolve(ConvolutionPass::kSourceGradient, shape_, gradient_.at,
                                       weights_, source_gradient_.at);
    }
    if (!status.ok()) return status;
    status = context.layers.Convolve(ConvolutionPass::kWeightGradient, shape_, source_.at,
                                     gradient_.at, weight_gradient_);
    if (!status.ok()) return status;
    return kernels.transpose(context.stream(), context.element(), weight_gradient_,
                             device::Element::kFloat32, bound_gradient_, spec_.outputs, window(),
                             shape_.channels);
  }

 private:
  size_t window() const { return size_t{spec_.kernel} * spec_.kernel; }

  const Convolution spec_;
  const bool relu_;
  device::ConvolutionShape shape_;
  Values source_, output_, gradient_, source_gradient_;
  std::byte *weights_ = nullptr, *weight_gradient_ = nullptr;  // channels last
  const float *bound_weights_ = nullptr, *bias_ = nullptr;
  float *bound_gradient_ = nullptr, *bias_gradient_ = nullptr;
};

}  // namespace

std::unique_ptr<Layer> MakeConvolution(const Convolution& spec, bool relu) {
  return std::make_unique<ConvolutionLayer>(spec, relu);
}

}  // namespace strata::training::on_device

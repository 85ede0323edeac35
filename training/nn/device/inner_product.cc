#include "training/nn/device/layer.h"

namespace strata::training::on_device {

absl::StatusOr<Values> Flattening::BuildForward(const LayerContext& context, const Values& source) {
  source_ = source;
  const Shape flat = {static_cast<uint32_t>(source.shape.Elements()), 1, 1};
  if (!copies()) return output_ = Values{source.at, flat};
  auto output = context.NewOutput(flat);
  if (output.ok()) output_ = *output;
  return output;
}

absl::StatusOr<Values> Flattening::BuildBackward(const LayerContext& context,
                                                 const Values& gradient) {
  gradient_ = gradient;
  if (!copies()) return Values{gradient.at, source_.shape};
  auto made = context.NewGradient(source_.shape);
  if (!made.ok()) return made;
  source_gradient_ = *made;
  context.GiveBack(gradient);
  return made;
}

absl::Status Flattening::Forward(const LayerContext& context) {
  if (!copies()) return absl::OkStatus();
  return context.kernels().transpose(context.stream(), context.element(), source_.at,
                                     context.element(), output_.at, context.batch, source_.places(),
                                     source_.shape.channels);
}

absl::Status Flattening::Backward(const LayerContext& context) {
  if (!copies()) return absl::OkStatus();
  return context.kernels().transpose(context.stream(), context.element(), gradient_.at,
                                     context.element(), source_gradient_.at, context.batch,
                                     source_.shape.channels, source_.places());
}

namespace {

class FlattenLayer : public Layer {
 public:
  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    return flattening_.BuildForward(context, source);
  }
  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool want_source_gradient) override {
    wanted_ = want_source_gradient;
    return wanted_ ? flattening_.BuildBackward(context, gradient) : Values();
  }
  absl::Status Forward(const LayerContext& context, const Pass&) override {
    return flattening_.Forward(context);
  }
  absl::Status Backward(const LayerContext& context) override {
    return wanted_ ? flattening_.Backward(context) : absl::OkStatus();
  }

 private:
  Flattening flattening_;
  bool wanted_ = false;
};

// y = x w^T + b, rows of samples.
class InnerProductLayer : public Layer {
 public:
  InnerProductLayer(const InnerProduct& spec, bool relu) : spec_(spec), relu_(relu) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    auto flat = flattening_.BuildForward(context, source);
    if (!flat.ok()) return flat;
    source_ = *flat;
    inputs_ = source_.shape.channels;
    converts_ = context.element() != device::Element::kFloat32;
    if (converts_) {
      const auto weights =
          context.memory.Allocate(inputs_ * spec_.outputs * ElementBytes(context.element()));
      if (!weights.ok()) return weights.status();
      converted_ = *weights;
    }
    auto output = context.NewOutput({spec_.outputs, 1, 1});
    if (output.ok()) output_ = *output;
    return output;
  }

  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool want_source_gradient) override {
    gradient_ = gradient;
    source_gradient_ = {};
    Values result;
    if (want_source_gradient) {
      auto made = context.NewGradient(source_.shape);
      if (!made.ok()) return made;
      source_gradient_ = *made;
      made = flattening_.BuildBackward(context, source_gradient_);
      if (!made.ok()) return made;
      result = *made;
    }
    context.GiveBack(gradient);
    return result;
  }

  void BindWeights(absl::Span<const absl::Span<float>> weights) override {
    weights_ = weights[0].data();
    bias_ = weights[1].data();
  }
  void BindGradients(absl::Span<const absl::Span<float>> gradients) override {
    weight_gradient_ = gradients[0].data();
    bias_gradient_ = gradients[1].data();
  }

  absl::Status Forward(const LayerContext& context, const Pass&) override {
    const auto& kernels = context.kernels();
    if (auto status = flattening_.Forward(context); !status.ok()) return status;
    if (converts_) {
      auto status = kernels.transpose(context.stream(), device::Element::kFloat32, weights_,
                                      context.element(), converted_, 1, 1, inputs_ * spec_.outputs);
      if (!status.ok()) return status;
    }
    const auto status = context.layers.Multiply(
        {.m = context.batch, .n = spec_.outputs, .k = inputs_, .transpose_b = true}, source_.at,
        weights(), context.element(), output_.at);
    if (!status.ok()) return status;
    return kernels.add_bias(context.stream(), context.Rows(output_), bias_, relu_, output_.at);
  }

  absl::Status Backward(const LayerContext& context) override {
    const auto& kernels = context.kernels();
    absl::Status status;
    if (relu_) {
      status = kernels.relu_backward(context.stream(), context.element(), output_.at, gradient_.at,
                                     context.Elements(output_.shape));
    }
    if (status.ok()) {
      status = kernels.sum_rows(context.stream(), context.Rows(gradient_), gradient_.at,
                                bias_gradient_, context.row_work);
    }
    if (status.ok()) {
      status = context.layers.Multiply(
          {.m = spec_.outputs, .n = inputs_, .k = context.batch, .transpose_a = true}, gradient_.at,
          source_.at, device::Element::kFloat32, weight_gradient_);
    }
    if (!status.ok() || source_gradient_.at == nullptr) return status;
    status =
        context.layers.Multiply({.m = context.batch, .n = inputs_, .k = spec_.outputs},
                                gradient_.at, weights(), context.element(), source_gradient_.at);
    return status.ok() ? flattening_.Backward(context) : status;
  }

 private:
  const void* weights() const {
    return converts_ ? static_cast<const void*>(converted_) : weights_;
  }

  const InnerProduct spec_;
  const bool relu_;
  size_t inputs_ = 0;
  bool converts_ = false;
  Flattening flattening_;
  Values source_, output_, gradient_, source_gradient_;  // flat
  std::byte* converted_ = nullptr;                       // the weights, in the precision's elements
  const float *weights_ = nullptr, *bias_ = nullptr;
  float *weight_gradient_ = nullptr, *bias_gradient_ = nullptr;
};

}  // namespace

std::unique_ptr<Layer> MakeFlatten() { return std::make_unique<FlattenLayer>(); }

std::unique_ptr<Layer> MakeInnerProduct(const InnerProduct& spec, bool relu) {
  return std::make_unique<InnerProductLayer>(spec, relu);
}

}  // namespace strata::training::on_device

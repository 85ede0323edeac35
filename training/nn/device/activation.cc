#include "training/nn/device/layer.h"
#include "training/nn/network/network.h"

namespace strata::training::on_device {
namespace {

class ReluLayer : public Layer {
 public:
  explicit ReluLayer(bool in_place) : in_place_(in_place) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    source_ = source;
    if (in_place_) return output_ = source;
    auto output = context.NewOutput(source.shape);
    if (output.ok()) output_ = *output;
    return output;
  }
  absl::StatusOr<Values> BuildBackward(const LayerContext&, const Values& gradient,
                                       bool want_source_gradient) override {
    gradient_ = want_source_gradient ? gradient : Values();
    return gradient_;
  }
  absl::Status Forward(const LayerContext& context, const Pass&) override {
    return context.kernels().relu(context.stream(), context.element(), source_.at, output_.at,
                                  context.Elements(source_.shape));
  }
  absl::Status Backward(const LayerContext& context) override {
    if (gradient_.at == nullptr) return absl::OkStatus();
    return context.kernels().relu_backward(context.stream(), context.element(), output_.at,
                                           gradient_.at, context.Elements(source_.shape));
  }

 private:
  const bool in_place_;
  Values source_, output_, gradient_;
};

// Draws the CPU's numbers. Which values were dropped is not kept: backward draws them again.
class DropoutLayer : public Layer {
 public:
  DropoutLayer(const Dropout& spec, uint64_t index, bool in_place)
      : spec_(spec), index_(index), in_place_(in_place) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    if (!context.train) return source;
    source_ = source;
    pass_ = {.element = context.element(),
             .batch = context.batch,
             .channels = source.shape.channels,
             .places = source.places(),
             .rate = spec_.rate};
    if (in_place_) return output_ = source;
    auto output = context.NewOutput(source.shape);
    if (output.ok()) output_ = *output;
    return output;
  }
  absl::StatusOr<Values> BuildBackward(const LayerContext&, const Values& gradient,
                                       bool want_source_gradient) override {
    gradient_ = want_source_gradient ? gradient : Values();
    return gradient_;
  }
  absl::Status Forward(const LayerContext& context, const Pass& pass) override {
    if (!context.train) return absl::OkStatus();
    pass_.key = DropoutKey(pass.seed, index_, pass.rank, pass.step);
    return context.kernels().dropout(context.stream(), pass_, source_.at, output_.at);
  }
  absl::Status Backward(const LayerContext& context) override {
    if (gradient_.at == nullptr) return absl::OkStatus();
    return context.kernels().dropout(context.stream(), pass_, gradient_.at, gradient_.at);
  }

 private:
  const Dropout spec_;
  const uint64_t index_;
  const bool in_place_;
  device::DropoutPass pass_;
  Values source_, output_, gradient_;
};

}  // namespace

std::unique_ptr<Layer> MakeRelu(bool in_place) { return std::make_unique<ReluLayer>(in_place); }

std::unique_ptr<Layer> MakeDropout(const Dropout& spec, uint64_t index, bool in_place) {
  return std::make_unique<DropoutLayer>(spec, index, in_place);
}

}  // namespace strata::training::on_device

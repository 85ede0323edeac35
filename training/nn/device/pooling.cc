#include "training/nn/device/layer.h"

namespace strata::training::on_device {
namespace {

class PoolingLayer : public Layer {
 public:
  // A kernel of 0: the whole source.
  PoolingLayer(bool is_max, uint32_t kernel, uint32_t stride, uint32_t padding)
      : is_max_(is_max), kernel_(kernel), stride_(stride), padding_(padding) {}

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    source_ = source;
    const Shape& in = source.shape;
    windows_ = {.element = context.element(),
                .batch = context.batch,
                .channels = in.channels,
                .height = in.height,
                .width = in.width,
                .kernel_height = kernel_ == 0 ? in.height : kernel_,
                .kernel_width = kernel_ == 0 ? in.width : kernel_,
                .stride = stride_,
                .padding = padding_};
    const Shape out = {in.channels, windows_.output_height(), windows_.output_width()};
    if (is_max_ && context.train) {
      const auto winners = context.memory.Allocate(context.Elements(out));
      if (!winners.ok()) return winners.status();
      winners_ = reinterpret_cast<uint8_t*>(*winners);
    }
    auto output = context.NewOutput(out);
    if (output.ok()) output_ = *output;
    return output;
  }

  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool want_source_gradient) override {
    if (!want_source_gradient) return Values();
    gradient_ = gradient;
    auto made = context.NewGradient(source_.shape);
    if (!made.ok()) return made;
    source_gradient_ = *made;
    context.GiveBack(gradient);
    return made;
  }

  absl::Status Forward(const LayerContext& context, const Pass&) override {
    const auto& kernels = context.kernels();
    return is_max_ ? kernels.max_pool(context.stream(), windows_, source_.at, output_.at, winners_)
                   : kernels.average_pool(context.stream(), windows_, source_.at, output_.at);
  }

  absl::Status Backward(const LayerContext& context) override {
    if (source_gradient_.at == nullptr) return absl::OkStatus();
    const auto& kernels = context.kernels();
    return is_max_ ? kernels.max_pool_backward(context.stream(), windows_, gradient_.at, winners_,
                                               source_gradient_.at)
                   : kernels.average_pool_backward(context.stream(), windows_, gradient_.at,
                                                   source_gradient_.at);
  }

 private:
  const bool is_max_;
  const uint32_t kernel_, stride_, padding_;
  device::WindowShape windows_;
  Values source_, output_, gradient_, source_gradient_;
  uint8_t* winners_ = nullptr;
};

}  // namespace

std::unique_ptr<Layer> MakeMaxPool(const MaxPool& spec) {
  return std::make_unique<PoolingLayer>(true, spec.kernel, spec.stride, spec.padding);
}
std::unique_ptr<Layer> MakeAveragePool(const AveragePool& spec) {
  return std::make_unique<PoolingLayer>(false, spec.kernel, spec.stride, 0);
}
std::unique_ptr<Layer> MakeGlobalAveragePool() {
  return std::make_unique<PoolingLayer>(false, 0, 1, 0);
}

}  // namespace strata::training::on_device

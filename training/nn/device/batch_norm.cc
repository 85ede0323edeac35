#include <utility>

#include "training/nn/device/layer.h"

namespace strata::training::on_device {
namespace {

// With what follows it in the same pass: the join of its block, ReLU.
class BatchNormLayer : public Layer {
 public:
  BatchNormLayer(const BatchNorm& spec, std::shared_ptr<Block> block, bool relu)
      : block_(std::move(block)) {
    pass_.epsilon = spec.epsilon;
    pass_.momentum = spec.momentum;
    pass_.relu = backward_.relu = relu;
  }

  absl::StatusOr<Values> BuildForward(const LayerContext& context, const Values& source) override {
    const auto saved = context.memory.Allocate(4 * sizeof(float) * source.shape.channels);
    if (!saved.ok()) return saved.status();
    auto output = context.NewOutput(source.shape);
    if (!output.ok()) return output;
    pass_.shape = backward_.shape = context.Rows(source);
    pass_.source = backward_.source = source.at;
    pass_.output = output->at;
    pass_.saved = reinterpret_cast<float*>(*saved);
    backward_.saved = pass_.saved;
    pass_.work = backward_.work = context.row_work;
    if (block_ != nullptr) {
      pass_.addend = block_->ends.empty() ? block_->forked.at : block_->ends[0].at;
      if (pass_.relu) backward_.output = output->at;
    }
    return output;
  }

  absl::StatusOr<Values> BuildBackward(const LayerContext& context, const Values& gradient,
                                       bool want_source_gradient) override {
    Values result;
    backward_.gradient = gradient.at;
    if (want_source_gradient) {
      auto made = context.NewGradient(gradient.shape);
      if (!made.ok()) return made;
      result = *made;
    }
    backward_.source_gradient = result.at;
    // It leaves the addend's gradient in `gradient`.
    if (block_ == nullptr) {
      context.GiveBack(gradient);
    } else if (block_->ends.empty()) {
      block_->forked_gradients.push_back(gradient);
    } else {
      block_->end_gradients.push_back(gradient);
    }
    return result;
  }

  void BindWeights(absl::Span<const absl::Span<float>> weights) override {
    pass_.weight = backward_.weight = weights[0].data();
    pass_.bias = weights[1].data();
  }
  void BindGradients(absl::Span<const absl::Span<float>> gradients) override {
    backward_.weight_gradient = gradients[0].data();
    backward_.bias_gradient = gradients[1].data();
  }
  void BindBuffers(absl::Span<const absl::Span<float>> buffers) override {
    pass_.running_mean = buffers[0].data();
    pass_.running_variance = buffers[1].data();
  }

  absl::Status Forward(const LayerContext& context, const Pass&) override {
    const auto& kernels = context.kernels();
    return context.train ? kernels.batch_norm(context.stream(), pass_)
                         : kernels.batch_norm_inference(context.stream(), pass_);
  }
  absl::Status Backward(const LayerContext& context) override {
    return context.kernels().batch_norm_backward(context.stream(), backward_);
  }

 private:
  const std::shared_ptr<Block> block_;
  device::BatchNormPass pass_;
  device::BatchNormGradient backward_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNorm(const BatchNorm& spec, std::shared_ptr<Block> block,
                                     bool relu) {
  return std::make_unique<BatchNormLayer>(spec, std::move(block), relu);
}

}  // namespace strata::training::on_device

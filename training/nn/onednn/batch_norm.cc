#include <algorithm>

#include "training/nn/onednn/layer.h"

namespace strata::training {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;

class BatchNormLayer : public Layer {
 public:
  explicit BatchNormLayer(const BatchNorm& spec) : spec_(spec) {}

  memory BuildForward(const Device& device, const memory& source) override {
    source_ = source;
    const memory::dims in = source.get_desc().dims();
    samples_ = in[0];
    for (size_t i = 2; i < in.size(); ++i) samples_ *= in[i];
    const memory::desc channels = PlainLayout({in[1]});
    scale_ = Unplaced(device, channels);
    shift_ = Unplaced(device, channels);
    flags_ = normalization_flags::use_scale | normalization_flags::use_shift;
    if (!device.train) flags_ |= normalization_flags::use_global_stats;
    // Inference reads the running statistics in place; training has those of the batch.
    mean_ = device.train ? memory(channels, device.engine) : Unplaced(device, channels);
    variance_ = device.train ? memory(channels, device.engine) : Unplaced(device, channels);
    using Forward = dnnl::batch_normalization_forward;
    forward_desc_ = Forward::primitive_desc(
        Forward::desc(device.ForwardKind(), source.get_desc(), spec_.epsilon, flags_),
        device.engine);
    const memory output(forward_desc_.dst_desc(), device.engine);
    forward_ = {Forward(forward_desc_),
                {{DNNL_ARG_SRC, source},
                 {DNNL_ARG_SCALE, scale_},
                 {DNNL_ARG_SHIFT, shift_},
                 {DNNL_ARG_MEAN, mean_},
                 {DNNL_ARG_VARIANCE, variance_},
                 {DNNL_ARG_DST, output}}};
    return output;
  }

  memory BuildBackward(const Device& device, const memory& gradient, bool) override {
    using Backward = dnnl::batch_normalization_backward;
    const memory::desc data = source_.get_desc();
    const Backward::primitive_desc primitive_desc(
        Backward::desc(dnnl::prop_kind::backward, data, data, spec_.epsilon, flags_), device.engine,
        forward_desc_);
    gradient_ = Relayout::Import(device, gradient, primitive_desc.diff_dst_desc());
    const memory source_gradient(primitive_desc.diff_src_desc(), device.engine);
    scale_gradient_ = Unplaced(device, scale_.get_desc());
    shift_gradient_ = Unplaced(device, shift_.get_desc());
    backward_ = {Backward(primitive_desc),
                 {{DNNL_ARG_SRC, source_},
                  {DNNL_ARG_MEAN, mean_},
                  {DNNL_ARG_VARIANCE, variance_},
                  {DNNL_ARG_SCALE, scale_},
                  {DNNL_ARG_SHIFT, shift_},
                  {DNNL_ARG_DIFF_DST, gradient_.inside()},
                  {DNNL_ARG_DIFF_SRC, source_gradient},
                  {DNNL_ARG_DIFF_SCALE, scale_gradient_},
                  {DNNL_ARG_DIFF_SHIFT, shift_gradient_}}};
    return source_gradient;
  }

  void BindWeights(absl::Span<const absl::Span<float>> weights) override {
    scale_.set_data_handle(weights[0].data());
    shift_.set_data_handle(weights[1].data());
  }
  void BindGradients(absl::Span<const absl::Span<float>> gradients) override {
    scale_gradient_.set_data_handle(gradients[0].data());
    shift_gradient_.set_data_handle(gradients[1].data());
  }
  void BindBuffers(absl::Span<const absl::Span<float>> buffers) override {
    running_mean_ = buffers[0];
    running_variance_ = buffers[1];
  }

  void Forward(const Device& device, const Pass&) override {
    if (!device.train) {
      mean_.set_data_handle(running_mean_.data());
      variance_.set_data_handle(running_variance_.data());
    }
    forward_.Run(device);
    if (device.train) UpdateRunningStatistics();
  }

  void Backward(const Device& device) override {
    gradient_.Run(device);
    backward_.Run(device);
  }

 private:
  void UpdateRunningStatistics() {
    const float* mean = static_cast<const float*>(mean_.get_data_handle());
    const float* variance = static_cast<const float*>(variance_.get_data_handle());
    // The batch's variance is divided by n; its estimate of the population's by n - 1.
    const float unbiased =
        static_cast<float>(samples_) / static_cast<float>(std::max<int64_t>(samples_ - 1, 1));
    const float keep = 1.0f - spec_.momentum;
    for (size_t c = 0; c < running_mean_.size(); ++c) {
      running_mean_[c] = keep * running_mean_[c] + spec_.momentum * mean[c];
      running_variance_[c] = keep * running_variance_[c] + spec_.momentum * variance[c] * unbiased;
    }
  }

  const BatchNorm spec_;
  int64_t samples_ = 0;  // that one channel's statistics are taken over
  normalization_flags flags_ = normalization_flags::none;
  absl::Span<float> running_mean_, running_variance_;
  memory source_, scale_, shift_, mean_, variance_, scale_gradient_, shift_gradient_;
  dnnl::batch_normalization_forward::primitive_desc forward_desc_;
  Relayout gradient_;
  Execution forward_, backward_;
};

}  // namespace

std::unique_ptr<Layer> MakeBatchNorm(const BatchNorm& spec) {
  return std::make_unique<BatchNormLayer>(spec);
}

}  // namespace strata::training

#include "training/nn/onednn/layer.h"

namespace strata::worker {
namespace {

using dnnl::memory;

// Takes sources of two or four dimensions; the weights then have as many, in the same bytes.
// Weights stay in their plain layout: oneDNN's matrix product is as fast on it as on a blocked one,
// and to block weights and unblock gradients would cost more than the product where the batch is
// small.
class InnerProductLayer : public Layer {
 public:
  explicit InnerProductLayer(const InnerProduct& spec) : spec_(spec) {}

  memory BuildForward(const Device& device, const memory& source) override {
    source_ = source;
    weight_dims_ = source.get_desc().dims();
    output_dims_ = {weight_dims_[0], spec_.outputs};
    weight_dims_[0] = spec_.outputs;
    weights_ = Unplaced(device, PlainLayout(weight_dims_));
    bias_ = Unplaced(device, PlainLayout({spec_.outputs}));
    using Forward = dnnl::inner_product_forward;
    const Forward::desc desc(device.ForwardKind(), AnyLayout(source.get_desc().dims()),
                             PlainLayout(weight_dims_), PlainLayout({spec_.outputs}),
                             PlainLayout(output_dims_));
    forward_desc_ = Forward::primitive_desc(desc, device.engine);
    forward_source_ = Relayout::Import(device, source, forward_desc_.src_desc());
    const memory output(forward_desc_.dst_desc(), device.engine);
    forward_ = {Forward(forward_desc_),
                {{DNNL_ARG_SRC, forward_source_.inside()},
                 {DNNL_ARG_WEIGHTS, weights_},
                 {DNNL_ARG_BIAS, bias_},
                 {DNNL_ARG_DST, output}}};
    return output;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    BuildBackwardWeights(device, gradient);
    if (!want_source_gradient) return {};
    using Backward = dnnl::inner_product_backward_data;
    const Backward::desc desc(AnyLayout(source_.get_desc().dims()), PlainLayout(weight_dims_),
                              PlainLayout(output_dims_));
    const Backward::primitive_desc primitive_desc(desc, device.engine, forward_desc_);
    data_gradient_ = Relayout::Import(device, gradient, primitive_desc.diff_dst_desc());
    const memory source_gradient(primitive_desc.diff_src_desc(), device.engine);
    backward_data_ = {Backward(primitive_desc),
                      {{DNNL_ARG_DIFF_DST, data_gradient_.inside()},
                       {DNNL_ARG_WEIGHTS, weights_},
                       {DNNL_ARG_DIFF_SRC, source_gradient}}};
    return source_gradient;
  }

  void BindWeights(absl::Span<const absl::Span<float>> weights) override {
    weights_.set_data_handle(weights[0].data());
    bias_.set_data_handle(weights[1].data());
  }
  void BindGradients(absl::Span<const absl::Span<float>> gradients) override {
    weights_gradient_.set_data_handle(gradients[0].data());
    bias_gradient_.set_data_handle(gradients[1].data());
  }

  void Forward(const Device& device, const Pass&) override {
    forward_source_.Run(device);
    forward_.Run(device);
  }

  void Backward(const Device& device) override {
    if (backward_data_.primitive) {
      data_gradient_.Run(device);
      backward_data_.Run(device);
    }
    weights_source_.Run(device);
    weights_output_gradient_.Run(device);
    backward_weights_.Run(device);
  }

 private:
  void BuildBackwardWeights(const Device& device, const memory& gradient) {
    using Backward = dnnl::inner_product_backward_weights;
    const Backward::desc desc(AnyLayout(source_.get_desc().dims()), PlainLayout(weight_dims_),
                              PlainLayout({spec_.outputs}), PlainLayout(output_dims_));
    const Backward::primitive_desc primitive_desc(desc, device.engine, forward_desc_);
    weights_gradient_ = Unplaced(device, PlainLayout(weight_dims_));
    bias_gradient_ = Unplaced(device, PlainLayout({spec_.outputs}));
    weights_source_ = Relayout::Import(device, source_, primitive_desc.src_desc());
    weights_output_gradient_ = Relayout::Import(device, gradient, primitive_desc.diff_dst_desc());
    backward_weights_ = {Backward(primitive_desc),
                         {{DNNL_ARG_SRC, weights_source_.inside()},
                          {DNNL_ARG_DIFF_DST, weights_output_gradient_.inside()},
                          {DNNL_ARG_DIFF_WEIGHTS, weights_gradient_},
                          {DNNL_ARG_DIFF_BIAS, bias_gradient_}}};
  }

  const InnerProduct spec_;
  memory::dims weight_dims_, output_dims_;
  memory source_, weights_, bias_, weights_gradient_, bias_gradient_;
  dnnl::inner_product_forward::primitive_desc forward_desc_;
  Relayout forward_source_, data_gradient_, weights_source_, weights_output_gradient_;
  Execution forward_, backward_data_, backward_weights_;
};

}  // namespace

std::unique_ptr<Layer> MakeInnerProduct(const InnerProduct& spec) {
  return std::make_unique<InnerProductLayer>(spec);
}

}  // namespace strata::worker

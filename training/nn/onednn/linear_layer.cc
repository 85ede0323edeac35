#include "training/nn/onednn/layer.h"

namespace strata::training {
namespace {

using dnnl::memory;

// A layer that is linear in its source and in its weights, and may add a bias: convolutions and
// inner products. This class owns the tensors, moves them between the model's layout and those that
// the primitives want, and runs the three primitives; a subclass describes these.
class LinearLayer : public Layer {
 public:
  dnnl::memory BuildForward(const Device& device, const dnnl::memory& source) final;
  dnnl::memory BuildBackward(const Device& device, const dnnl::memory& gradient,
                             bool want_source_gradient) final;

  void BindWeights(absl::Span<const absl::Span<float>> weights) final;
  void BindGradients(absl::Span<const absl::Span<float>> gradients) final;

  void Forward(const Device& device, const Pass& pass) final;
  void Backward(const Device& device) final;

 protected:
  explicit LinearLayer(bool bias) : has_bias_(bias) {}

  // The dimensions of weights come with the outputs first; a bias has one value per output.
  // The first call: `source` has these dimensions in all three primitives.
  virtual dnnl::primitive_desc DescribeForward(const Device& device,
                                               const dnnl::memory::dims& source) = 0;
  virtual dnnl::primitive_desc DescribeSourceGradient(const Device& device) = 0;
  virtual dnnl::primitive_desc DescribeWeightGradient(const Device& device) = 0;

 private:
  void BuildWeightGradient(const Device& device, const dnnl::memory& gradient);

  const bool has_bias_;
  dnnl::memory source_, weights_, bias_, weight_gradient_, bias_gradient_;

  Relayout forward_source_, forward_weights_;
  Execution forward_;

  // Nothing where the source's gradient is not wanted.
  Relayout source_pass_gradient_, source_pass_weights_;
  Execution source_pass_;

  Relayout weight_pass_source_, weight_pass_gradient_, weight_pass_result_;
  Execution weight_pass_;
};

memory LinearLayer::BuildForward(const Device& device, const memory& source) {
  source_ = source;
  const dnnl::primitive_desc primitive = DescribeForward(device, source.get_desc().dims());
  const memory::dims weight_dims = primitive.weights_desc().dims();
  weights_ = Unplaced(device, PlainLayout(weight_dims));
  forward_source_ = Relayout::Import(device, source, primitive.src_desc());
  forward_weights_ = Relayout::Import(device, weights_, primitive.weights_desc());
  const memory output(primitive.dst_desc(), device.engine);
  forward_ = {dnnl::primitive(primitive),
              {{DNNL_ARG_SRC, forward_source_.inside()},
               {DNNL_ARG_WEIGHTS, forward_weights_.inside()},
               {DNNL_ARG_DST, output}}};
  if (has_bias_) {
    bias_ = Unplaced(device, PlainLayout({weight_dims[0]}));
    forward_.arguments.insert({DNNL_ARG_BIAS, bias_});
  }
  return output;
}

memory LinearLayer::BuildBackward(const Device& device, const memory& gradient,
                                  bool want_source_gradient) {
  BuildWeightGradient(device, gradient);
  if (!want_source_gradient) return {};
  const dnnl::primitive_desc primitive = DescribeSourceGradient(device);
  source_pass_gradient_ = Relayout::Import(device, gradient, primitive.diff_dst_desc());
  source_pass_weights_ = Relayout::Import(device, weights_, primitive.weights_desc());
  const memory source_gradient(primitive.diff_src_desc(), device.engine);
  source_pass_ = {dnnl::primitive(primitive),
                  {{DNNL_ARG_DIFF_DST, source_pass_gradient_.inside()},
                   {DNNL_ARG_WEIGHTS, source_pass_weights_.inside()},
                   {DNNL_ARG_DIFF_SRC, source_gradient}}};
  return source_gradient;
}

void LinearLayer::BuildWeightGradient(const Device& device, const memory& gradient) {
  const dnnl::primitive_desc primitive = DescribeWeightGradient(device);
  const memory::dims weight_dims = primitive.diff_weights_desc().dims();
  weight_gradient_ = Unplaced(device, PlainLayout(weight_dims));
  weight_pass_source_ = Relayout::Import(device, source_, primitive.src_desc());
  weight_pass_gradient_ = Relayout::Import(device, gradient, primitive.diff_dst_desc());
  weight_pass_result_ = Relayout::Export(device, weight_gradient_, primitive.diff_weights_desc());
  weight_pass_ = {dnnl::primitive(primitive),
                  {{DNNL_ARG_SRC, weight_pass_source_.inside()},
                   {DNNL_ARG_DIFF_DST, weight_pass_gradient_.inside()},
                   {DNNL_ARG_DIFF_WEIGHTS, weight_pass_result_.inside()}}};
  if (has_bias_) {
    bias_gradient_ = Unplaced(device, PlainLayout({weight_dims[0]}));
    weight_pass_.arguments.insert({DNNL_ARG_DIFF_BIAS, bias_gradient_});
  }
}

void LinearLayer::BindWeights(absl::Span<const absl::Span<float>> weights) {
  weights_.set_data_handle(weights[0].data());
  if (has_bias_) bias_.set_data_handle(weights[1].data());
}

void LinearLayer::BindGradients(absl::Span<const absl::Span<float>> gradients) {
  weight_gradient_.set_data_handle(gradients[0].data());
  if (has_bias_) bias_gradient_.set_data_handle(gradients[1].data());
}

void LinearLayer::Forward(const Device& device, const Pass&) {
  forward_source_.Run(device);
  forward_weights_.Run(device);
  forward_.Run(device);
}

void LinearLayer::Backward(const Device& device) {
  if (source_pass_.primitive) {
    source_pass_gradient_.Run(device);
    source_pass_weights_.Run(device);
    source_pass_.Run(device);
  }
  weight_pass_source_.Run(device);
  weight_pass_gradient_.Run(device);
  weight_pass_.Run(device);
  weight_pass_result_.Run(device);
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

class ConvolutionLayer : public LinearLayer {
 public:
  explicit ConvolutionLayer(const Convolution& spec) : LinearLayer(spec.bias), spec_(spec) {}

 private:
  dnnl::primitive_desc DescribeForward(const Device& device, const memory::dims& source) override {
    source_ = AnyLayout(source);
    weights_ = AnyLayout({spec_.outputs, source[1], spec_.kernel, spec_.kernel});
    output_ = AnyLayout({source[0], spec_.outputs, OutputSize(source[2]), OutputSize(source[3])});
    using Forward = dnnl::convolution_forward;
    const auto kind = device.ForwardKind();
    const Forward::desc desc = spec_.bias ? Forward::desc(kind, kDirect, source_, weights_, bias_,
                                                          output_, strides_, padding_, padding_)
                                          : Forward::desc(kind, kDirect, source_, weights_, output_,
                                                          strides_, padding_, padding_);
    forward_desc_ = Forward::primitive_desc(desc, device.engine);
    return forward_desc_;
  }

  dnnl::primitive_desc DescribeSourceGradient(const Device& device) override {
    using Backward = dnnl::convolution_backward_data;
    const Backward::desc desc(kDirect, source_, weights_, output_, strides_, padding_, padding_);
    return Backward::primitive_desc(desc, device.engine, forward_desc_);
  }

  dnnl::primitive_desc DescribeWeightGradient(const Device& device) override {
    using Backward = dnnl::convolution_backward_weights;
    const Backward::desc desc = spec_.bias ? Backward::desc(kDirect, source_, weights_, bias_,
                                                            output_, strides_, padding_, padding_)
                                           : Backward::desc(kDirect, source_, weights_, output_,
                                                            strides_, padding_, padding_);
    return Backward::primitive_desc(desc, device.engine, forward_desc_);
  }

  int64_t OutputSize(int64_t input) const {
    return (input + 2 * spec_.padding - spec_.kernel) / spec_.stride + 1;
  }

  const Convolution spec_;
  const memory::dims strides_{spec_.stride, spec_.stride};
  const memory::dims padding_{spec_.padding, spec_.padding};
  const memory::desc bias_ = PlainLayout({spec_.outputs});
  memory::desc source_, weights_, output_;
  dnnl::convolution_forward::primitive_desc forward_desc_;
};

// Takes sources of two or four dimensions; the weights then have as many, in the same bytes.
// Weights stay in their plain layout: oneDNN's matrix product is as fast on it as on a blocked one,
// and to block weights and unblock gradients would cost more than the product where the batch is
// small.
class InnerProductLayer : public LinearLayer {
 public:
  explicit InnerProductLayer(const InnerProduct& spec) : LinearLayer(/*bias=*/true), spec_(spec) {}

 private:
  dnnl::primitive_desc DescribeForward(const Device& device, const memory::dims& source) override {
    source_ = AnyLayout(source);
    memory::dims weight_dims = source;
    weight_dims[0] = spec_.outputs;
    weights_ = PlainLayout(weight_dims);
    output_ = PlainLayout({source[0], spec_.outputs});
    using Forward = dnnl::inner_product_forward;
    const Forward::desc desc(device.ForwardKind(), source_, weights_, bias_, output_);
    forward_desc_ = Forward::primitive_desc(desc, device.engine);
    return forward_desc_;
  }

  dnnl::primitive_desc DescribeSourceGradient(const Device& device) override {
    using Backward = dnnl::inner_product_backward_data;
    const Backward::desc desc(source_, weights_, output_);
    return Backward::primitive_desc(desc, device.engine, forward_desc_);
  }

  dnnl::primitive_desc DescribeWeightGradient(const Device& device) override {
    using Backward = dnnl::inner_product_backward_weights;
    const Backward::desc desc(source_, weights_, bias_, output_);
    return Backward::primitive_desc(desc, device.engine, forward_desc_);
  }

  const InnerProduct spec_;
  const memory::desc bias_ = PlainLayout({spec_.outputs});
  memory::desc source_, weights_, output_;
  dnnl::inner_product_forward::primitive_desc forward_desc_;
};

}  // namespace

std::unique_ptr<Layer> MakeConvolution(const Convolution& spec) {
  return std::make_unique<ConvolutionLayer>(spec);
}

std::unique_ptr<Layer> MakeInnerProduct(const InnerProduct& spec) {
  return std::make_unique<InnerProductLayer>(spec);
}

}  // namespace strata::training

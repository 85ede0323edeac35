#include "training/nn/onednn/linear_layer.h"

namespace strata::worker {

using dnnl::memory;

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

}  // namespace strata::worker

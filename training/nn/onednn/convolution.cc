#include "training/nn/onednn/layer.h"

namespace strata::worker {
namespace {

using dnnl::memory;

class ConvolutionLayer : public Layer {
 public:
  explicit ConvolutionLayer(const Convolution& spec) : spec_(spec) {}

  memory BuildForward(const Device& device, const memory& source) override {
    source_ = source;
    const memory::dims in = source.get_desc().dims();
    weight_dims_ = {spec_.outputs, in[1], spec_.kernel, spec_.kernel};
    padding_ = {spec_.padding, spec_.padding};
    output_dims_ = {in[0], spec_.outputs, OutputSize(in[2]), OutputSize(in[3])};
    weights_ = Unplaced(device, PlainLayout(weight_dims_));
    using Forward = dnnl::convolution_forward;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const Forward::desc desc =
        spec_.bias
            ? Forward::desc(device.ForwardKind(), kDirect, AnyLayout(in), AnyLayout(weight_dims_),
                            PlainLayout({spec_.outputs}), AnyLayout(output_dims_), strides_,
                            padding_, padding_)
            : Forward::desc(device.ForwardKind(), kDirect, AnyLayout(in), AnyLayout(weight_dims_),
                            AnyLayout(output_dims_), strides_, padding_, padding_);
    forward_desc_ = Forward::primitive_desc(desc, device.engine);
    forward_source_ = Relayout::Import(device, source, forward_desc_.src_desc());
    forward_weights_ = Relayout::Import(device, weights_, forward_desc_.weights_desc());
    const memory output(forward_desc_.dst_desc(), device.engine);
    forward_ = {Forward(forward_desc_),
                {{DNNL_ARG_SRC, forward_source_.inside()},
                 {DNNL_ARG_WEIGHTS, forward_weights_.inside()},
                 {DNNL_ARG_DST, output}}};
    if (spec_.bias) {
      bias_ = Unplaced(device, PlainLayout({spec_.outputs}));
      forward_.arguments.insert({DNNL_ARG_BIAS, bias_});
    }
    return output;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    BuildBackwardWeights(device, gradient);
    if (!want_source_gradient) return {};
    using Backward = dnnl::convolution_backward_data;
    const Backward::desc desc(dnnl::algorithm::convolution_direct,
                              AnyLayout(source_.get_desc().dims()), AnyLayout(weight_dims_),
                              AnyLayout(output_dims_), strides_, padding_, padding_);
    const Backward::primitive_desc primitive_desc(desc, device.engine, forward_desc_);
    data_gradient_ = Relayout::Import(device, gradient, primitive_desc.diff_dst_desc());
    data_weights_ = Relayout::Import(device, weights_, primitive_desc.weights_desc());
    const memory source_gradient(primitive_desc.diff_src_desc(), device.engine);
    backward_data_ = {Backward(primitive_desc),
                      {{DNNL_ARG_DIFF_DST, data_gradient_.inside()},
                       {DNNL_ARG_WEIGHTS, data_weights_.inside()},
                       {DNNL_ARG_DIFF_SRC, source_gradient}}};
    return source_gradient;
  }

  void BindWeights(absl::Span<const absl::Span<float>> weights) override {
    weights_.set_data_handle(weights[0].data());
    if (spec_.bias) bias_.set_data_handle(weights[1].data());
  }
  void BindGradients(absl::Span<const absl::Span<float>> gradients) override {
    weights_gradient_.set_data_handle(gradients[0].data());
    if (spec_.bias) bias_gradient_.set_data_handle(gradients[1].data());
  }

  void Forward(const Device& device, const Pass&) override {
    forward_source_.Run(device);
    forward_weights_.Run(device);
    forward_.Run(device);
  }

  void Backward(const Device& device) override {
    if (backward_data_.primitive) {
      data_gradient_.Run(device);
      data_weights_.Run(device);
      backward_data_.Run(device);
    }
    weights_source_.Run(device);
    weights_output_gradient_.Run(device);
    backward_weights_.Run(device);
    weights_export_.Run(device);
  }

 private:
  void BuildBackwardWeights(const Device& device, const memory& gradient) {
    using Backward = dnnl::convolution_backward_weights;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const memory::desc source = AnyLayout(source_.get_desc().dims());
    const Backward::desc desc =
        spec_.bias
            ? Backward::desc(kDirect, source, AnyLayout(weight_dims_), PlainLayout({spec_.outputs}),
                             AnyLayout(output_dims_), strides_, padding_, padding_)
            : Backward::desc(kDirect, source, AnyLayout(weight_dims_), AnyLayout(output_dims_),
                             strides_, padding_, padding_);
    const Backward::primitive_desc primitive_desc(desc, device.engine, forward_desc_);
    weights_gradient_ = Unplaced(device, PlainLayout(weight_dims_));
    weights_source_ = Relayout::Import(device, source_, primitive_desc.src_desc());
    weights_output_gradient_ = Relayout::Import(device, gradient, primitive_desc.diff_dst_desc());
    weights_export_ =
        Relayout::Export(device, weights_gradient_, primitive_desc.diff_weights_desc());
    backward_weights_ = {Backward(primitive_desc),
                         {{DNNL_ARG_SRC, weights_source_.inside()},
                          {DNNL_ARG_DIFF_DST, weights_output_gradient_.inside()},
                          {DNNL_ARG_DIFF_WEIGHTS, weights_export_.inside()}}};
    if (spec_.bias) {
      bias_gradient_ = Unplaced(device, PlainLayout({spec_.outputs}));
      backward_weights_.arguments.insert({DNNL_ARG_DIFF_BIAS, bias_gradient_});
    }
  }

  int64_t OutputSize(int64_t input) const {
    return (input + 2 * spec_.padding - spec_.kernel) / spec_.stride + 1;
  }

  const Convolution spec_;
  const memory::dims strides_{spec_.stride, spec_.stride};
  memory::dims weight_dims_, output_dims_, padding_;
  memory source_, weights_, bias_, weights_gradient_, bias_gradient_;
  dnnl::convolution_forward::primitive_desc forward_desc_;
  Relayout forward_source_, forward_weights_, data_gradient_, data_weights_;
  Relayout weights_source_, weights_output_gradient_, weights_export_;
  Execution forward_, backward_data_, backward_weights_;
};

}  // namespace

std::unique_ptr<Layer> MakeConvolution(const Convolution& spec) {
  return std::make_unique<ConvolutionLayer>(spec);
}

}  // namespace strata::worker

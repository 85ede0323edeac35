#include "training/nn/onednn/linear_layer.h"

namespace strata::worker {
namespace {

using dnnl::memory;

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

}  // namespace

std::unique_ptr<Layer> MakeConvolution(const Convolution& spec) {
  return std::make_unique<ConvolutionLayer>(spec);
}

}  // namespace strata::worker

#include "training/nn/onednn/layer.h"

namespace strata::training {
namespace {

using dnnl::memory;

class PoolingLayer : public Layer {
 public:
  // A kernel of 0: the whole source.
  PoolingLayer(dnnl::algorithm algorithm, uint32_t kernel, uint32_t stride, uint32_t padding)
      : algorithm_(algorithm),
        kernel_{kernel, kernel},
        strides_{stride, stride},
        padding_{padding, padding} {}

  memory BuildForward(const Device& device, const memory& source) override {
    source_desc_ = source.get_desc();
    const memory::dims in = source_desc_.dims();
    if (kernel_[0] == 0) kernel_ = {in[2], in[3]};
    const memory::dims out{in[0], in[1], (in[2] + 2 * padding_[0] - kernel_[0]) / strides_[0] + 1,
                           (in[3] + 2 * padding_[1] - kernel_[1]) / strides_[1] + 1};
    // oneDNN wants the padding on the right (negative where a partial window is left out) to agree.
    for (int i = 0; i < 2; ++i) {
      padding_right_[i] = (out[2 + i] - 1) * strides_[i] + kernel_[i] - in[2 + i] - padding_[i];
    }
    using Forward = dnnl::pooling_forward;
    forward_desc_ = Forward::primitive_desc(
        Forward::desc(device.ForwardKind(), algorithm_, source_desc_, AnyLayout(out), strides_,
                      kernel_, padding_, padding_right_),
        device.engine);
    output_ = memory(forward_desc_.dst_desc(), device.engine);
    forward_ = {Forward(forward_desc_), {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output_}}};
    if (device.train && algorithm_ == dnnl::algorithm::pooling_max) {
      workspace_ = memory(forward_desc_.workspace_desc(), device.engine);
      forward_.arguments.insert({DNNL_ARG_WORKSPACE, workspace_});
    }
    return output_;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    if (!want_source_gradient) return {};
    using Backward = dnnl::pooling_backward;
    const Backward::primitive_desc primitive_desc(
        Backward::desc(algorithm_, source_desc_, output_.get_desc(), strides_, kernel_, padding_,
                       padding_right_),
        device.engine, forward_desc_);
    gradient_ = Relayout::Import(device, gradient, primitive_desc.diff_dst_desc());
    const memory source_gradient(primitive_desc.diff_src_desc(), device.engine);
    backward_ = {Backward(primitive_desc),
                 {{DNNL_ARG_DIFF_DST, gradient_.inside()}, {DNNL_ARG_DIFF_SRC, source_gradient}}};
    if (workspace_) backward_.arguments.insert({DNNL_ARG_WORKSPACE, workspace_});
    return source_gradient;
  }

  void Forward(const Device& device, const Pass&) override { forward_.Run(device); }

  void Backward(const Device& device) override {
    if (!backward_.primitive) return;
    gradient_.Run(device);
    backward_.Run(device);
  }

 private:
  const dnnl::algorithm algorithm_;
  memory::dims kernel_, strides_, padding_, padding_right_{0, 0};
  memory::desc source_desc_;
  memory output_, workspace_;
  dnnl::pooling_forward::primitive_desc forward_desc_;
  Relayout gradient_;
  Execution forward_, backward_;
};

}  // namespace

std::unique_ptr<Layer> MakeMaxPool(const MaxPool& spec) {
  return std::make_unique<PoolingLayer>(dnnl::algorithm::pooling_max, spec.kernel, spec.stride,
                                        spec.padding);
}

std::unique_ptr<Layer> MakeAveragePool(const AveragePool& spec) {
  return std::make_unique<PoolingLayer>(dnnl::algorithm::pooling_avg_exclude_padding, spec.kernel,
                                        spec.stride, 0);
}

std::unique_ptr<Layer> MakeGlobalAveragePool() {
  return std::make_unique<PoolingLayer>(dnnl::algorithm::pooling_avg_exclude_padding, 0, 1, 0);
}

}  // namespace strata::training

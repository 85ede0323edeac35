// Layers without weights that keep the number of values: ReLU, dropout, flatten.

#include "common/random.h"
#include "training/nn/network/network.h"
#include "training/nn/onednn/layer.h"

namespace strata::training {
namespace {

using dnnl::memory;

class ReluLayer : public Layer {
 public:
  explicit ReluLayer(bool in_place) : in_place_(in_place) {}

  memory BuildForward(const Device& device, const memory& source) override {
    using Forward = dnnl::eltwise_forward;
    forward_desc_ = Forward::primitive_desc(
        Forward::desc(device.ForwardKind(), kAlgorithm, source.get_desc(), 0.0f), device.engine);
    output_ = in_place_ ? source : memory(forward_desc_.dst_desc(), device.engine);
    forward_ = {Forward(forward_desc_), {{DNNL_ARG_SRC, source}, {DNNL_ARG_DST, output_}}};
    return output_;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    if (!want_source_gradient) return {};
    using Backward = dnnl::eltwise_backward;
    const memory::desc data = output_.get_desc();
    const Backward::primitive_desc primitive_desc(Backward::desc(kAlgorithm, data, data, 0.0f),
                                                  device.engine, forward_desc_);
    gradient_ = Relayout::Import(device, gradient, data);
    backward_ = {Backward(primitive_desc),
                 {{DNNL_ARG_DST, output_},
                  {DNNL_ARG_DIFF_DST, gradient_.inside()},
                  {DNNL_ARG_DIFF_SRC, gradient_.inside()}}};
    return gradient_.inside();
  }

  void Forward(const Device& device, const Pass&) override { forward_.Run(device); }

  void Backward(const Device& device) override {
    if (!backward_.primitive) return;
    gradient_.Run(device);
    backward_.Run(device);
  }

 private:
  static constexpr auto kAlgorithm = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const bool in_place_;
  memory output_;
  dnnl::eltwise_forward::primitive_desc forward_desc_;
  Relayout gradient_;
  Execution forward_, backward_;
};

class DropoutLayer : public Layer {
 public:
  DropoutLayer(const Dropout& spec, uint64_t index) : spec_(spec), index_(index) {}

  memory BuildForward(const Device& device, const memory& source) override {
    if (!device.train) return source;
    // Plain, so that which values are dropped does not depend on a layout that oneDNN chose.
    source_ = Relayout::Import(device, source, PlainLayout(source.get_desc().dims()));
    output_ = memory(source_.inside().get_desc(), device.engine);
    factors_.resize(output_.get_desc().get_size() / sizeof(float));
    return output_;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    if (!want_source_gradient) return {};
    gradient_ = Relayout::Import(device, gradient, output_.get_desc());
    return gradient_.inside();
  }

  void Forward(const Device& device, const Pass& pass) override {
    if (!device.train) return;
    source_.Run(device);
    const uint64_t key = DropoutKey(pass.seed, index_, pass.rank, pass.step);
    const float keep = 1.0f / (1.0f - spec_.rate);
    const float* from = Floats(source_.inside());
    float* to = Floats(output_);
    for (size_t i = 0; i < factors_.size(); ++i) {
      factors_[i] = RandomUniform(key, i) < spec_.rate ? 0.0f : keep;
      to[i] = from[i] * factors_[i];
    }
  }

  void Backward(const Device& device) override {
    if (!gradient_.inside()) return;
    gradient_.Run(device);
    float* gradient = Floats(gradient_.inside());
    for (size_t i = 0; i < factors_.size(); ++i) gradient[i] *= factors_[i];
  }

 private:
  const Dropout spec_;
  const uint64_t index_;
  std::vector<float> factors_;  // 0 or 1 / (1 - rate)
  memory output_;
  Relayout source_, gradient_;
};

// The same bytes with two dimensions, once they are in plain layout.
class FlattenLayer : public Layer {
 public:
  memory BuildForward(const Device& device, const memory& source) override {
    dims_ = source.get_desc().dims();
    source_ = Relayout::Import(device, source, PlainLayout(dims_));
    int64_t elements = 1;
    for (size_t i = 1; i < dims_.size(); ++i) elements *= dims_[i];
    output_ = Unplaced(device, PlainLayout({dims_[0], elements}));
    return output_;
  }

  memory BuildBackward(const Device& device, const memory& gradient,
                       bool want_source_gradient) override {
    if (!want_source_gradient) return {};
    gradient_ = Relayout::Import(device, gradient, output_.get_desc());
    return memory(PlainLayout(dims_), device.engine, gradient_.inside().get_data_handle());
  }

  void Forward(const Device& device, const Pass&) override {
    source_.Run(device);
    // The source may be the images, whose place changes from batch to batch.
    output_.set_data_handle(source_.inside().get_data_handle());
  }

  void Backward(const Device& device) override { gradient_.Run(device); }

 private:
  memory::dims dims_;
  memory output_;
  Relayout source_, gradient_;
};

}  // namespace

std::unique_ptr<Layer> MakeRelu(bool in_place) { return std::make_unique<ReluLayer>(in_place); }

std::unique_ptr<Layer> MakeDropout(const Dropout& spec, uint64_t index) {
  return std::make_unique<DropoutLayer>(spec, index);
}

std::unique_ptr<Layer> MakeFlatten() { return std::make_unique<FlattenLayer>(); }

}  // namespace strata::training

#include "training/nn/onednn/linear_layer.h"

namespace strata::worker {
namespace {

using dnnl::memory;

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

std::unique_ptr<Layer> MakeInnerProduct(const InnerProduct& spec) {
  return std::make_unique<InnerProductLayer>(spec);
}

}  // namespace strata::worker

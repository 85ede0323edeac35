#ifndef STRATA_TRAINING_NN_ONEDNN_LINEAR_LAYER_H_
#define STRATA_TRAINING_NN_ONEDNN_LINEAR_LAYER_H_

#include "training/nn/onednn/layer.h"

namespace strata::worker {

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

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_ONEDNN_LINEAR_LAYER_H_

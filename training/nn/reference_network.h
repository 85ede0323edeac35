#ifndef STRATA_TRAINING_NN_REFERENCE_NETWORK_H_
#define STRATA_TRAINING_NN_REFERENCE_NETWORK_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "training/nn/network/model.h"

namespace strata::training {

// The layers as plain scalar loops, for tests: no oneDNN, no blocking, `Real` throughout. In
// training mode; dropout is refused.
template <typename Real>
class ReferenceNetwork {
 public:
  ReferenceNetwork(const ModelSpec& model, size_t batch);

  // Tensors in the order of ListWeights and ListBuffers; initially those of Initialize with `seed`.
  void InitializeWith(uint64_t seed);
  std::vector<std::vector<Real>> weights, gradients, buffers;

  // Returns batch x classes logits.
  const std::vector<Real>& Forward(absl::Span<const Real> images);
  // Returns the loss summed over the batch; begins the backward pass.
  double Loss(absl::Span<const uint16_t> labels);
  // Fills `gradients`; returns the gradient of the images.
  std::vector<Real> Backward();

 private:
  using Values = std::vector<Real>;
  // A block during the forward pass; its Join or Concat keeps it.
  struct Block {
    Shape forked;
    Values values;              // at the Fork
    std::vector<Shape> shapes;  // of the branches that have ended
    std::vector<Values> ends;
  };
  struct LayerState {
    LayerShape shape;
    int first_weight = 0, first_buffer = 0;
    Values input;
    std::vector<size_t> winners;    // of max pooling: index of the input per output
    std::vector<Real> mean, scale;  // of batch normalisation: scale = 1 / deviation
    Block block;                    // of a Join or Concat
  };

  void Forward(const Convolution&, LayerState* state, Values* out);
  void Forward(const InnerProduct&, LayerState* state, Values* out);
  void Forward(const MaxPool&, LayerState* state, Values* out);
  void Forward(const AveragePool&, LayerState* state, Values* out);
  void Forward(const GlobalAveragePool&, LayerState* state, Values* out);
  void Forward(const Relu&, LayerState* state, Values* out);
  void Forward(const BatchNorm&, LayerState* state, Values* out);
  void Forward(const Dropout&, LayerState* state, Values* out);
  void Forward(const Flatten&, LayerState* state, Values* out);
  void Forward(const Fork&, LayerState* state, Values* out);
  void Forward(const Branch&, LayerState* state, Values* out);
  void Forward(const Join&, LayerState* state, Values* out);
  void Forward(const Concat&, LayerState* state, Values* out);
  // `in` begins with zeros.
  void Backward(const Convolution&, const LayerState& state, const Values& out, Values* in);
  void Backward(const InnerProduct&, const LayerState& state, const Values& out, Values* in);
  void Backward(const MaxPool&, const LayerState& state, const Values& out, Values* in);
  void Backward(const AveragePool&, const LayerState& state, const Values& out, Values* in);
  void Backward(const GlobalAveragePool&, const LayerState& state, const Values& out, Values* in);
  void Backward(const Relu&, const LayerState& state, const Values& out, Values* in);
  void Backward(const BatchNorm&, const LayerState& state, const Values& out, Values* in);
  void Backward(const Dropout&, const LayerState& state, const Values& out, Values* in);
  void Backward(const Flatten&, const LayerState& state, const Values& out, Values* in);
  void Backward(const Fork&, const LayerState& state, const Values& out, Values* in);
  void Backward(const Branch&, const LayerState& state, const Values& out, Values* in);
  void Backward(const Join&, const LayerState& state, const Values& out, Values* in);
  void Backward(const Concat&, const LayerState& state, const Values& out, Values* in);

  const ModelSpec model_;
  const size_t batch_;
  std::vector<LayerState> layers_;
  Values logits_, logits_gradient_;
  Block block_;
  // During the backward pass: the gradient of the values at the Fork, from the finished branches
  // and the shortcut; and the gradients of the ends of unfinished branches.
  Values forked_gradient_;
  std::vector<Values> end_gradients_;
};

// Small models of every layer in its error-prone positions, with which every backend is tested.
struct LayerCase {
  std::string name;
  Shape input;
  std::vector<LayerSpec> layers;
  uint32_t batch = 3;
};

inline void PrintTo(const LayerCase& value, std::ostream* out) { *out << value.name; }

std::vector<LayerCase> SimpleLayerCases();
std::vector<LayerCase> ShortcutCases();
std::vector<LayerCase> ConcatCases();
std::vector<LayerCase> JoinCases();

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_REFERENCE_NETWORK_H_

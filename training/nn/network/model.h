#ifndef STRATA_TRAINING_NN_NETWORK_MODEL_H_
#define STRATA_TRAINING_NN_NETWORK_MODEL_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace strata::training {

// The shape of values between layers, per sample. After Flatten: channels x 1 x 1.
struct Shape {
  uint32_t channels = 1, height = 1, width = 1;

  uint64_t Elements() const { return uint64_t{channels} * height * width; }
  bool operator==(const Shape&) const = default;
};

// Square kernel, zero padding on all sides. Weights are outputs x inputs x kernel x kernel.
struct Convolution {
  uint32_t outputs = 1, kernel = 1, padding = 0, stride = 1;
  bool bias = true;
};
// y = W x + b over the flattened sample; weights are outputs x inputs.
struct InnerProduct {
  uint32_t outputs = 1;
};
// Square windows; a partial window at the end is left out. Padding on all sides, smaller than the
// kernel, never wins. (With "ceil mode" of other libraries, a padding of 1 gives the same sizes for
// kernel 3 and stride 2.)
struct MaxPool {
  uint32_t kernel = 2, stride = 2, padding = 0;
};
// Pools like MaxPool, without padding.
struct AveragePool {
  uint32_t kernel = 2, stride = 2;
};
// Averages each channel over height and width.
struct GlobalAveragePool {};
struct Relu {};
// Per channel, over batch, height and width (Ioffe & Szegedy 2015). Its running mean and variance
// are buffers: kept on each rank, used for inference, never exchanged.
struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;  // weight of the newest batch in the running statistics
};
// Zeroes each value with probability `rate` in training and divides the others by 1 - rate.
struct Dropout {
  float rate = 0.5f;
};
struct Flatten {};

// A block: branches that all begin with what the Fork met, and a layer that makes one of them.
//
//     Fork, layers of the first branch, Branch, layers of the second, Branch, ..., Join or Concat
//
// A branch may be empty: it hands on what the Fork met. Blocks do not nest.
struct Fork {};
struct Branch {};
// The sum of the branches. Of a block with one branch, its sum with what the Fork met (He et al.
// 2016, option A: every stride-th place of each row and column, further channels as they are).
struct Join {
  uint32_t stride = 1;
};
// The branches' channels one after another (Szegedy et al. 2015).
struct Concat {};

struct LayerSpec {
  std::string name;  // unique in its model; its tensors are NAME.weight, NAME.bias, ...
  std::variant<Convolution, InnerProduct, MaxPool, AveragePool, GlobalAveragePool, Relu, BatchNorm,
               Dropout, Flatten, Fork, Branch, Join, Concat>
      kind;
};

// A sequence of layers from an image to one logit per class: what a model is, for every backend
// that computes it. Forward goes through the layers in their order, backward in the reverse one.
struct ModelSpec {
  std::string name;
  Shape input;
  std::vector<LayerSpec> layers;
};

// A tensor of a model, weights or buffers, and its initial values.
struct TensorSpec {
  std::string name;
  std::vector<uint64_t> shape;
  float constant = 0.0f;          // first value, plus
  float uniform = 0.0f;           // a random number in [-uniform, uniform)
  float decay_multiplier = 1.0f;  // 0 for biases and batch normalisation

  uint64_t Elements() const;
};

// The shapes of a layer: input, output and tensors.
struct LayerShape {
  Shape input, output;
  std::vector<TensorSpec> weights;  // trained
  std::vector<TensorSpec> buffers;
};

// Follows the shapes through the model, one entry per layer. Errors: InvalidArgument naming the
// layer that does not fit.
absl::StatusOr<std::vector<LayerShape>> FollowShapes(const ModelSpec& model);

// All trained tensors (or buffers) of a model that FollowShapes accepts, in the order of the
// forward pass.
std::vector<TensorSpec> ListWeights(const ModelSpec& model);
std::vector<TensorSpec> ListBuffers(const ModelSpec& model);

// Fills a tensor, number `index` of ListWeights, with its first values: the same bits for the same
// seed on every rank and host (He et al. 2015, uniform; Glorot & Bengio 2010 for the last layer).
void Initialize(const TensorSpec& tensor, uint64_t seed, uint64_t index, absl::Span<float> values);

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_NETWORK_MODEL_H_

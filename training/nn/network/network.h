#ifndef STRATA_TRAINING_NN_NETWORK_NETWORK_H_
#define STRATA_TRAINING_NN_NETWORK_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/random.h"
#include "training/nn/network/model.h"

namespace strata::device {
class Stream;
}

namespace strata::training {

// The key that dropout draws with in every backend: element i of a batch (channels x height x width
// of each sample) is dropped where RandomUniform(key, i) < rate. `layer` is its index in the model.
constexpr uint64_t DropoutKey(uint64_t seed, uint64_t layer, uint32_t rank, uint64_t step) {
  constexpr uint64_t kStream = 0x64726f706f7574u;
  return RandomKey(RandomKey(RandomKey(RandomKey(seed, kStream), layer), rank), step);
}

// Sums over samples.
struct LossSums {
  double loss = 0;
  uint64_t correct = 0;  // the largest logit is the label's
};

// Softmax cross-entropy of rows of `classes` logits. Writes the gradient of the *summed* loss with
// respect to the logits (softmax - one-hot, not divided by the number of samples), unless
// `gradient` is null. The row's largest logit is taken off first, so that no exponential overflows.
// REQUIRES: each label below classes.
LossSums SoftmaxCrossEntropy(const float* logits, size_t classes, absl::Span<const uint16_t> labels,
                             float* gradient);

// A model built for one batch size: what computes it is the backend's (create_network.h). Weights,
// gradients and buffers stay the caller's memory: the host's, or the device's that computes.
//
// Threads: one caller, also the one that created it.
class Network {
 public:
  enum class Mode {
    kTrain,
    kInference,  // no dropout; batch normalisation with its running statistics; no Backward
  };
  struct Options {
    uint32_t batch = 64;
    Mode mode = Mode::kTrain;
    // Dropout draws from (seed, rank, step, layer).
    uint64_t seed = 1;
    uint32_t rank = 0;
    // Also compute the gradient of the images; else backward ends at the first layer with weights.
    bool input_gradient = false;
  };
  // Called with an index into ListWeights; an error ends the pass.
  using Hook = absl::FunctionRef<absl::Status(int weight)>;

  virtual ~Network() = default;

  // Says where tensors live, in the order of ListWeights and ListBuffers; `gradients` may be empty
  // for inference. Before the first Forward; may be called again. Their sizes are those of the
  // specs.
  virtual void Bind(const std::vector<absl::Span<float>>& weights,
                    const std::vector<absl::Span<float>>& gradients,
                    const std::vector<absl::Span<float>>& buffers) = 0;

  // Dropout draws as this rank from the next Forward on.
  virtual void SetRank(uint32_t rank) = 0;

  // The stream of a device in which the passes are queued, which return before they are done: what
  // hooks say then holds for what is queued there from then on. Null: the passes are done when they
  // return.
  virtual device::Stream* stream() { return nullptr; }

  // Announces the images of the next Forward, so that a device may fetch them while it is busy.
  // They must not change until after it.
  virtual absl::Status Prefetch(const float* /*images*/) { return absl::OkStatus(); }

  // Computes the logits of one batch of images (batch x channels x height x width, which stay until
  // after Backward). `before_read` is called for each weight just before its layer reads it.
  virtual absl::Status Forward(const float* images, uint64_t step, Hook before_read) = 0;

  // The logits of the last Forward: batch x classes. Empty if a device has failed, which the next
  // call returns as an error.
  virtual absl::Span<const float> Logits() const = 0;

  // Waits for the pass, then sums loss and correct answers over the first labels.size() samples of
  // the batch and, in training, sets out for Backward. REQUIRES: each label below the number of
  // classes; as many labels as samples, or, in inference, fewer.
  virtual absl::StatusOr<LossSums> Loss(absl::Span<const uint16_t> labels) = 0;

  // Writes the gradients of the summed loss, last layer first. `complete` is called for each
  // weight, last first, once its gradient is written and the weight is not read again.
  virtual absl::Status Backward(Hook complete) = 0;

  // The gradient of the images, with input_gradient and after Backward: batch x channels x height x
  // width. Empty as Logits.
  virtual absl::Span<const float> InputGradient() const = 0;
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_NETWORK_NETWORK_H_

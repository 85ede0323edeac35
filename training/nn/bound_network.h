#ifndef STRATA_TRAINING_NN_BOUND_NETWORK_H_
#define STRATA_TRAINING_NN_BOUND_NETWORK_H_

#include <memory>
#include <vector>

#include "training/nn/create_network.h"

namespace strata::training {

// A network together with memory of its own for weights, gradients and buffers, for tests.
struct BoundNetwork {
  BoundNetwork(const ModelSpec& model, const Network::Options& options, uint64_t seed = 1)
      : network(CreateNetwork(model, options).value()) {
    for (const TensorSpec& tensor : ListWeights(model)) {
      weights.emplace_back(tensor.Elements());
      Initialize(tensor, seed, weights.size() - 1, absl::MakeSpan(weights.back()));
    }
    gradients = weights;
    for (const TensorSpec& tensor : ListBuffers(model)) {
      buffers.emplace_back(tensor.Elements(), tensor.constant);
    }
    network->Bind(Spans(&weights), Spans(&gradients), Spans(&buffers));
  }

  // One pass each; returns the loss.
  double Forward(const std::vector<float>& images, const std::vector<uint16_t>& labels,
                 uint64_t step = 0) {
    const auto nothing = [](int) { return absl::OkStatus(); };
    if (!network->Forward(images.data(), step, nothing).ok()) return -1;
    return network->Loss(labels)->loss;
  }
  absl::Status Backward() {
    return network->Backward([](int) { return absl::OkStatus(); });
  }

  using Tensors = std::vector<std::vector<float>>;
  static std::vector<absl::Span<float>> Spans(Tensors* tensors) {
    std::vector<absl::Span<float>> spans;
    for (auto& tensor : *tensors) spans.push_back(absl::MakeSpan(tensor));
    return spans;
  }

  std::unique_ptr<Network> network;
  Tensors weights, gradients, buffers;
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_BOUND_NETWORK_H_

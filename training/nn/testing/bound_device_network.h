#ifndef STRATA_TRAINING_NN_TESTING_BOUND_DEVICE_NETWORK_H_
#define STRATA_TRAINING_NN_TESTING_BOUND_DEVICE_NETWORK_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "training/nn/create_network.h"

namespace strata::worker {

// A network on a device together with memory for weights, gradients and buffers, of which the
// vectors are the host's images; for tests. On the device tensors lie back to back, as in arenas.
struct BoundDeviceNetwork {
  using Tensors = std::vector<std::vector<float>>;

  BoundDeviceNetwork(const ModelSpec& model, const Network::Options& options, const Backend& on,
                     uint64_t seed = 1)
      : backend(on), network(CreateNetwork(model, options, on).value()) {
    for (const TensorSpec& tensor : ListWeights(model)) {
      weights.emplace_back(tensor.Elements());
      Initialize(tensor, seed, weights.size() - 1, absl::MakeSpan(weights.back()));
    }
    gradients = weights;
    for (const TensorSpec& tensor : ListBuffers(model)) {
      buffers.emplace_back(tensor.Elements(), tensor.constant);
    }
    network->Bind(Place(weights, &weight_memory), Place(gradients, &gradient_memory),
                  Place(buffers, &buffer_memory));
    Upload(buffers, buffer_memory);
  }

  // One pass each, weights to the device before, gradients and buffers back after; the loss.
  absl::StatusOr<double> Forward(const std::vector<float>& images,
                                 const std::vector<uint16_t>& labels, uint64_t step = 0) {
    const auto nothing = [](int) { return absl::OkStatus(); };
    Upload(weights, weight_memory);
    if (auto status = network->Forward(images.data(), step, nothing); !status.ok()) return status;
    const auto sums = network->Loss(labels);
    if (!sums.ok()) return sums.status();
    Download(&buffers, buffer_memory);
    return sums->loss;
  }
  absl::Status Backward() {
    auto status = network->Backward([](int) { return absl::OkStatus(); });
    Download(&gradients, gradient_memory);
    return status;
  }

  void Upload(const Tensors& tensors, const device::Memory& memory) {
    std::vector<float> all;
    for (const auto& tensor : tensors) all.insert(all.end(), tensor.begin(), tensor.end());
    all.push_back(0);
    (void)network->stream()->Copy(memory.get(), all.data(), all.size() * sizeof(float));
    (void)network->stream()->Synchronize();
  }
  void Download(Tensors* tensors, const device::Memory& memory) {
    auto* at = reinterpret_cast<float*>(memory.get());
    for (auto& tensor : *tensors) {
      (void)network->stream()->Copy(tensor.data(), at, tensor.size() * sizeof(float));
      at += tensor.size();
    }
    (void)network->stream()->Synchronize();
  }

  Backend backend;
  Tensors weights, gradients, buffers;
  device::Memory weight_memory, gradient_memory, buffer_memory;
  std::unique_ptr<Network> network;  // is gone before its memory

 private:
  std::vector<absl::Span<float>> Place(const Tensors& tensors, device::Memory* memory) {
    size_t count = 1;
    for (const auto& tensor : tensors) count += tensor.size();
    *memory = backend.device->Allocate(count * sizeof(float), "a test").value();
    auto* at = reinterpret_cast<float*>(memory->get());
    std::vector<absl::Span<float>> spans;
    for (const auto& tensor : tensors) {
      spans.push_back(absl::MakeSpan(at, tensor.size()));
      at += tensor.size();
    }
    return spans;
  }
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_TESTING_BOUND_DEVICE_NETWORK_H_

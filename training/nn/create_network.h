#ifndef STRATA_TRAINING_NN_CREATE_NETWORK_H_
#define STRATA_TRAINING_NN_CREATE_NETWORK_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device/device.h"
#include "kernels/device/layers.h"
#include "training/nn/network/model.h"
#include "training/nn/network/network.h"

namespace strata::training {

// The processor that computes networks: the CPU, unless the fields are set.
struct Backend {
  device::Device* device = nullptr;  // outlives everything that uses it
  std::shared_ptr<device::Layers> layers;
};

// Returns a backend on a device; its choices of algorithms are logged. Errors: device::Device's.
absl::StatusOr<Backend> OpenBackend(device::Device* device, device::Precision precision);

// Creates a network on the CPU (onednn/network.h) or on the backend's device (device/network.h).
// Errors: those of the two.
absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(const ModelSpec& model,
                                                       const Network::Options& options,
                                                       const Backend& backend = {});

using Tensors = std::vector<std::vector<float>>;

// Tensors in the memory that a backend's networks compute in. It outlives all use of its spans.
class TensorMemory {
 public:
  TensorMemory() = default;
  // Returns memory that holds these values. Errors: the device's.
  static absl::StatusOr<TensorMemory> Create(const Backend& backend, Tensors values);

  // The host must not touch spans of a device's memory.
  const std::vector<absl::Span<float>>& spans() const { return spans_; }

 private:
  Tensors host_;
  device::Memory memory_;
  std::vector<absl::Span<float>> spans_;
};

// Reads the tensors once everything queued in the backend's stream is done. Errors: the device's.
absl::StatusOr<Tensors> ReadTensors(const Backend& backend,
                                    const std::vector<absl::Span<float>>& tensors);

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_CREATE_NETWORK_H_

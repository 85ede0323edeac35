#ifndef STRATA_TRAINING_NN_CREATE_NETWORK_H_
#define STRATA_TRAINING_NN_CREATE_NETWORK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/layers.h"
#include "training/nn/network/model.h"
#include "training/nn/network/network.h"

namespace strata::worker {

// What networks are computed by: the CPU, unless the fields are set.
struct Backend {
  device::Device* device = nullptr;  // outlives all that uses it
  std::shared_ptr<device::Layers> layers;
};

// Returns a backend on a device, whose choices of algorithms go to the log. Errors:
// device::Device's.
absl::StatusOr<Backend> OpenBackend(device::Device* device, device::Precision precision);

// Creates a network on the CPU (onednn/network.h) or on the backend's device (device/network.h).
// Errors: those of the two.
absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(const ModelSpec& model,
                                                       const Network::Options& options,
                                                       const Backend& backend = {});

}  // namespace strata::worker

#endif  // STRATA_TRAINING_NN_CREATE_NETWORK_H_

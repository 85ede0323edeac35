#ifndef STRATA_TRAINING_NN_DEVICE_NETWORK_H_
#define STRATA_TRAINING_NN_DEVICE_NETWORK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/layers.h"
#include "training/nn/network/network.h"

namespace strata::training {

// A network on a device: what Bind names is in its memory, images and labels are the host's.
// Everything is allocated now, and algorithms are chosen by measuring them. Networks that share
// `layers` share its stream. The device outlives them. Errors: InvalidArgument (the model's
// shapes), and those of Device and Layers, naming the layer.
absl::StatusOr<std::unique_ptr<Network>> CreateDeviceNetwork(
    const ModelSpec& model, const Network::Options& options, device::Device& device,
    std::shared_ptr<device::Layers> layers);

}  // namespace strata::training

#endif  // STRATA_TRAINING_NN_DEVICE_NETWORK_H_

#include "training/nn/create_network.h"

#include <string>
#include <utility>

#include "common/log.h"
#include "training/nn/device/network.h"
#include "training/nn/onednn/network.h"

namespace strata::worker {

absl::StatusOr<Backend> OpenBackend(device::Device* device, device::Precision precision) {
  device::LayersOptions options;
  options.precision = precision;
  options.log = [](const std::string& line) { Log(LogLevel::kInfo, line); };
  auto layers = device->OpenLayers(options);
  if (!layers.ok()) return layers.status();
  return Backend{device, *std::move(layers)};
}

absl::StatusOr<std::unique_ptr<Network>> CreateNetwork(const ModelSpec& model,
                                                       const Network::Options& options,
                                                       const Backend& backend) {
  if (backend.layers == nullptr) return CreateOneDnnNetwork(model, options);
  return CreateDeviceNetwork(model, options, *backend.device, backend.layers);
}

}  // namespace strata::worker

#include "training/nn/create_network.h"

#include <string>
#include <utility>

#include "common/log.h"
#include "training/nn/device/network.h"
#include "training/nn/onednn/network.h"

namespace strata::training {

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

absl::StatusOr<TensorMemory> TensorMemory::Create(const Backend& backend, Tensors values) {
  TensorMemory made;
  if (backend.layers == nullptr) {
    made.host_ = std::move(values);
    for (auto& tensor : made.host_) made.spans_.push_back(absl::MakeSpan(tensor));
    return made;
  }
  size_t elements = 1;
  for (const auto& tensor : values) elements += tensor.size();
  auto memory = backend.device->Allocate(elements * sizeof(float), "tensors");
  if (!memory.ok()) return memory.status();
  made.memory_ = *std::move(memory);
  device::Stream& stream = backend.layers->stream();
  float* at = reinterpret_cast<float*>(made.memory_.get());
  for (const auto& tensor : values) {
    made.spans_.push_back(absl::MakeSpan(at, tensor.size()));
    auto status = stream.Copy(at, tensor.data(), tensor.size() * sizeof(float));
    if (!status.ok()) return status;
    at += tensor.size();
  }
  if (auto status = stream.Synchronize(); !status.ok()) return status;
  return made;
}

absl::StatusOr<Tensors> ReadTensors(const Backend& backend,
                                    const std::vector<absl::Span<float>>& tensors) {
  Tensors values;
  for (absl::Span<const float> tensor : tensors) {
    if (backend.layers == nullptr) {
      values.emplace_back(tensor.begin(), tensor.end());
      continue;
    }
    values.emplace_back(tensor.size());
    auto status = backend.layers->stream().Copy(values.back().data(), tensor.data(),
                                                tensor.size() * sizeof(float));
    if (!status.ok()) return status;
  }
  if (backend.layers == nullptr) return values;
  if (auto status = backend.layers->stream().Synchronize(); !status.ok()) return status;
  return values;
}

}  // namespace strata::training

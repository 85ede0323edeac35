#include "training/trainer/batch_statistics.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "common/require.h"

namespace strata::training {

void ForgetEarlierBatches(ModelSpec* model) {
  for (LayerSpec& layer : model->layers) {
    if (auto* norm = std::get_if<BatchNorm>(&layer.kind)) norm->momentum = 1.0f;
  }
}

client::Tensor StatisticsTensor(const TensorSpec& buffer) {
  client::Tensor tensor;
  tensor.name = buffer.name;
  tensor.shape = buffer.shape;
  tensor.decay_multiplier = 0.0f;
  tensor.averaged = true;
  return tensor;
}

void SumStatistics(absl::Span<const float> own, uint32_t samples, absl::Span<float> sum) {
  for (size_t i = 0; i < own.size(); ++i) sum[i] = own[i] * static_cast<float>(samples);
}

BatchStatistics::BatchStatistics(proto::Model::BatchNorm kind, ModelSpec* model,
                                 client::Client* client)
    : exchanged_(kind == proto::Model::LAST_BATCH), client_(*client), specs_(ListBuffers(*model)) {
  if (exchanged_) ForgetEarlierBatches(model);
}

absl::Status BatchStatistics::Register() {
  if (!exchanged_) return absl::OkStatus();
  for (const TensorSpec& spec : specs_) {
    auto index = client_.Register(StatisticsTensor(spec));
    if (!index.ok()) return index.status();
    tensors_.push_back(*index);
  }
  return absl::OkStatus();
}

void BatchStatistics::Initialize() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const absl::Span<float> values = client_.Weights(tensors_[i]);
    std::fill(values.begin(), values.end(), specs_[i].constant);
  }
}

size_t BatchStatistics::state_bytes() const {
  if (!keeps_state()) return 0;
  size_t bytes = 0;
  for (const TensorSpec& spec : specs_) bytes += spec.Elements() * sizeof(float);
  return bytes;
}

absl::Status BatchStatistics::MoveTo(const Backend& backend, absl::Span<const std::byte> state) {
  STRATA_REQUIRE(state.empty() || state.size() == state_bytes());
  Tensors first;
  for (const TensorSpec& spec : specs_) {
    auto& values = first.emplace_back(spec.Elements(), spec.constant);
    if (state.empty()) continue;
    std::memcpy(values.data(), state.data(), values.size() * sizeof(float));
    state.remove_prefix(values.size() * sizeof(float));
  }
  auto own = TensorMemory::Create(backend, std::move(first));
  if (!own.ok()) return own.status();
  own_ = *std::move(own);
  backend_ = backend;
  return absl::OkStatus();
}

absl::Status BatchStatistics::Sum(absl::Span<const float> own, uint32_t samples,
                                  absl::Span<float> sum) {
  if (backend_.layers == nullptr) {
    SumStatistics(own, samples, sum);
    return absl::OkStatus();
  }
  device::Layers& layers = *backend_.layers;
  return layers.kernels().scale(layers.stream(), own.data(), static_cast<float>(samples),
                                sum.data(), own.size());
}

absl::Status BatchStatistics::Publish(uint32_t samples) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (auto status = client_.Wait(tensors_[i]); !status.ok()) return status;
    auto status = Sum(own_.spans()[i], samples, client_.Gradients(tensors_[i]));
    if (!status.ok()) {
      client_.Fail(status);
      return status;
    }
    if (status = client_.Publish(tensors_[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BatchStatistics::AppendState(std::string* state) const {
  if (!keeps_state()) return absl::OkStatus();
  const auto values = ReadTensors(backend_, own_.spans());
  if (!values.ok()) return values.status();
  for (const auto& one : *values) {
    state->append(reinterpret_cast<const char*>(one.data()), one.size() * sizeof(float));
  }
  return absl::OkStatus();
}

std::vector<absl::Span<float>> BatchStatistics::inference() {
  if (!exchanged_) return training();
  std::vector<absl::Span<float>> spans;
  for (int tensor : tensors_) spans.push_back(client_.Weights(tensor));
  return spans;
}

}  // namespace strata::training

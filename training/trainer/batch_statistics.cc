#include "training/trainer/batch_statistics.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "worker/client/client_checkpoints.h"

namespace strata::worker {

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

absl::StatusOr<Tensors> BatchStatistics::FirstValues() {
  Tensors first;
  size_t bytes = 0;
  for (const TensorSpec& spec : specs_) {
    first.emplace_back(spec.Elements(), spec.constant);
    bytes += first.back().size() * sizeof(float);
  }
  if (!keeps_state() || client_.first_step() == 0) return first;
  const absl::StatusOr<Bytes> state = client_.checkpoints().Read(client_.rank());
  if (!state.ok()) return state.status();
  if (state->size() != bytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the checkpoint has %d bytes of running statistics of rank %d, the model %d", state->size(),
        client_.rank(), bytes));
  }
  const std::byte* from = state->data();
  for (auto& values : first) {
    std::memcpy(values.data(), from, values.size() * sizeof(float));
    from += values.size() * sizeof(float);
  }
  return first;
}

absl::Status BatchStatistics::MoveTo(const Backend& backend) {
  auto first = FirstValues();
  if (!first.ok()) return first.status();
  auto own = TensorMemory::Create(backend, *std::move(first));
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
      client_.Fail(std::string(status.message()));
      return status;
    }
    if (status = client_.Publish(tensors_[i]); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BatchStatistics::GiveIfDue() {
  if (!keeps_state() || !client_.checkpoints().due()) return absl::OkStatus();
  auto values = ReadTensors(backend_, own_.spans());
  if (!values.ok()) {
    client_.Fail(std::string(values.status().message()));
    return values.status();
  }
  std::string state;
  for (const auto& one : *values) {
    state.append(reinterpret_cast<const char*>(one.data()), one.size() * sizeof(float));
  }
  return client_.checkpoints().Give(std::move(state));
}

std::vector<absl::Span<float>> BatchStatistics::inference() {
  if (!exchanged_) return training();
  std::vector<absl::Span<float>> spans;
  for (int tensor : tensors_) spans.push_back(client_.Weights(tensor));
  return spans;
}

}  // namespace strata::worker

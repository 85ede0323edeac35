#include "training/trainer/trainer_state.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/bytes.h"
#include "worker/client/client_parts.h"

namespace strata::training {

absl::Status TrainerState::MoveTo(const Backend& backend) {
  if (!keeps_state() || client_.first_step() == 0) return statistics_.MoveTo(backend);
  const absl::StatusOr<Bytes> state = client_.checkpoints().Read(client_.rank());
  if (!state.ok()) return state.status();
  const size_t own = statistics_.state_bytes();
  // Copies to be measured are of no use where that has been done in the course of training.
  const bool fits = measures_later_ ? state->size() >= own : state->size() == own;
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the checkpoint has %d bytes of running statistics of rank %d, the model %d", state->size(),
        client_.rank(), own));
  }
  const absl::Span<const std::byte> bytes(state->data(), state->size());
  std::vector<size_t> sizes;
  for (const TensorSpec& spec : ListWeights(model_)) sizes.push_back(spec.Elements());
  for (const TensorSpec& spec : ListBuffers(model_)) sizes.push_back(spec.Elements());
  if (absl::Status status = snapshots_.Restore(bytes.subspan(own), sizes); !status.ok()) {
    return status;
  }
  return statistics_.MoveTo(backend, bytes.subspan(0, own));
}

bool TrainerState::is_due() const { return keeps_state() && client_.checkpoints().due(); }

absl::Status TrainerState::GiveIfDue(bool measured_soon) {
  if (!is_due()) return absl::OkStatus();
  std::string state;
  if (absl::Status status = statistics_.AppendState(&state); !status.ok()) {
    client_.Fail(status);
    return status;
  }
  if (!measured_soon) snapshots_.AppendState(&state);
  return client_.checkpoints().Give(std::move(state));
}

absl::Status Snapshots::Take(uint64_t step, double trained_s,
                             const std::vector<absl::Span<float>>& weights,
                             const std::vector<absl::Span<float>>& buffers,
                             const Backend& backend) {
  std::vector<absl::Span<float>> all = weights;
  all.insert(all.end(), buffers.begin(), buffers.end());
  auto tensors = ReadTensors(backend, all);
  if (!tensors.ok()) return tensors.status();
  taken_.push_back({step, trained_s, *std::move(tensors)});
  return absl::OkStatus();
}

void Snapshots::AppendState(std::string* state) const {
  const auto append = [state](const void* data, size_t size) {
    state->append(static_cast<const char*>(data), size);
  };
  for (const Snapshot& snapshot : taken_) {
    append(&snapshot.step, sizeof snapshot.step);
    append(&snapshot.trained_s, sizeof snapshot.trained_s);
    for (const auto& tensor : snapshot.tensors)
      append(tensor.data(), tensor.size() * sizeof(float));
  }
}

absl::Status Snapshots::Restore(absl::Span<const std::byte> state,
                                const std::vector<size_t>& sizes) {
  size_t bytes = sizeof(Snapshot::step) + sizeof(Snapshot::trained_s);
  for (const size_t size : sizes) bytes += size * sizeof(float);
  if (state.size() % bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the checkpoint has %d bytes of weights to measure, which are no multiple "
                        "of the model's %d",
                        state.size(), bytes));
  }
  const auto take = [&state](void* data, size_t size) {
    std::memcpy(data, state.data(), size);
    state.remove_prefix(size);
  };
  while (!state.empty()) {
    Snapshot& snapshot = taken_.emplace_back();
    take(&snapshot.step, sizeof snapshot.step);
    take(&snapshot.trained_s, sizeof snapshot.trained_s);
    for (const size_t size : sizes) {
      auto& tensor = snapshot.tensors.emplace_back(size);
      take(tensor.data(), size * sizeof(float));
    }
  }
  return absl::OkStatus();
}

absl::Status Snapshots::Measure(const ModelSpec& model, const Dataset* data,
                                const Normalisation& normalisation, const OnScore& on_score,
                                const Backend& backend) {
  const size_t weights = ListWeights(model).size();
  for (Snapshot& snapshot : std::exchange(taken_, {})) {
    const auto tensors = TensorMemory::Create(backend, std::move(snapshot.tensors));
    if (!tensors.ok()) return tensors.status();
    std::vector<absl::Span<float>> spans = tensors->spans();
    const std::vector<absl::Span<float>> buffers(spans.begin() + weights, spans.end());
    spans.resize(weights);
    auto evaluator = Evaluator::Create(model, data, normalisation, spans, buffers, backend);
    if (!evaluator.ok()) return evaluator.status();
    const auto score = (*evaluator)->Measure();
    if (!score.ok()) return score.status();
    if (absl::Status status = on_score(snapshot, *score); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace strata::training

#include "training/trainer/snapshots.h"

#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"

namespace strata::worker {

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

}  // namespace strata::worker

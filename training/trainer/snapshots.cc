#include "training/trainer/snapshots.h"

#include <memory>
#include <utility>

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

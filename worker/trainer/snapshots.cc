#include "worker/trainer/snapshots.h"

#include <memory>
#include <utility>

namespace strata::worker {

void Snapshots::Take(uint64_t step, double trained_s, const std::vector<absl::Span<float>>& weights,
                     const std::vector<absl::Span<float>>& buffers) {
  Snapshot snapshot{step, trained_s, {}};
  snapshot.tensors.reserve(weights.size() + buffers.size());
  for (const auto* spans : {&weights, &buffers}) {
    for (absl::Span<const float> span : *spans) {
      snapshot.tensors.emplace_back(span.begin(), span.end());
    }
  }
  taken_.push_back(std::move(snapshot));
}

absl::Status Snapshots::Measure(const ModelSpec& model, const Dataset* data,
                                const Normalisation& normalisation, const OnScore& on_score) {
  const size_t weights = WeightsOf(model).size();
  for (Snapshot& snapshot : std::exchange(taken_, {})) {
    std::vector<absl::Span<float>> spans;
    for (std::vector<float>& tensor : snapshot.tensors) spans.push_back(absl::MakeSpan(tensor));
    const std::vector<absl::Span<float>> buffers(spans.begin() + weights, spans.end());
    spans.resize(weights);
    auto evaluator = Evaluator::Create(model, data, normalisation, spans, buffers);
    if (!evaluator.ok()) return evaluator.status();
    const auto score = (*evaluator)->Measure();
    if (!score.ok()) return score.status();
    if (absl::Status status = on_score(snapshot, *score); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace strata::worker

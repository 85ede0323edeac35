#include "worker/trainer/evaluator.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace strata::worker {

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(
    const ModelSpec& model, const Dataset* data, const Normalisation& normalisation,
    const std::vector<absl::Span<float>>& weights, const std::vector<absl::Span<float>>& buffers) {
  auto network = Network::Create(model, {.batch = kBatch, .mode = Network::Mode::kInference});
  if (!network.ok()) return network.status();
  (*network)->Bind(weights, {}, buffers);
  return std::make_unique<Evaluator>(*std::move(network), data, normalisation);
}

Evaluator::Evaluator(std::unique_ptr<Network> network, const Dataset* data,
                     const Normalisation& normalisation)
    : network_(std::move(network)),
      data_(data),
      normalisation_(normalisation),
      images_(kBatch * data->PixelsPerImage()),
      labels_(kBatch) {}

absl::StatusOr<Score> Evaluator::Measure() {
  std::vector<uint32_t> indices(kBatch);
  LossSums sums;
  for (size_t begin = 0; begin < data_->size(); begin += kBatch) {
    // The last batch may be short: what the network makes of the rest of the images is not counted.
    const size_t count = std::min<size_t>(kBatch, data_->size() - begin);
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(begin));
    FillBatch(*data_, normalisation_, absl::MakeConstSpan(indices).first(count), images_.data(),
              labels_.data());
    const auto nothing = [](int) { return absl::OkStatus(); };
    if (auto status = network_->Forward(images_.data(), 0, nothing); !status.ok()) return status;
    const LossSums batch = network_->Loss(absl::MakeConstSpan(labels_).first(count));
    sums.loss += batch.loss;
    sums.correct += batch.correct;
  }
  const double count = static_cast<double>(data_->size());
  return Score{static_cast<double>(sums.correct) / count, sums.loss / count};
}

}  // namespace strata::worker

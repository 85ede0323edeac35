#include "training/trainer/evaluator.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "common/require.h"

namespace strata::training {
namespace {

// Layers whose output is their input, or takes its place.
bool TakesNoMemory(const LayerSpec& layer) {
  return std::holds_alternative<Relu>(layer.kind) || std::holds_alternative<Dropout>(layer.kind) ||
         std::holds_alternative<Flatten>(layer.kind) || std::holds_alternative<Fork>(layer.kind) ||
         std::holds_alternative<Branch>(layer.kind);
}

}  // namespace

uint32_t Evaluator::BatchFor(const ModelSpec& model) {
  const std::vector<LayerShape> shapes = FollowShapes(model).value();
  uint64_t bytes = 0;  // per sample
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!TakesNoMemory(model.layers[i])) bytes += shapes[i].output.Elements() * sizeof(float);
  }
  uint32_t batch = kBatchMax;
  while (batch > 1 && batch * bytes > kOutputBytesMax) batch /= 2;
  return batch;
}

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(
    const ModelSpec& model, const Dataset* data, const Normalisation& normalisation,
    const std::vector<absl::Span<float>>& weights, const std::vector<absl::Span<float>>& buffers,
    const Backend& backend) {
  if (auto shapes = FollowShapes(model); !shapes.ok()) return shapes.status();
  const uint32_t batch = BatchFor(model);
  auto network = CreateNetwork(model, {.batch = batch, .mode = Network::Mode::kInference}, backend);
  if (!network.ok()) return network.status();
  (*network)->Bind(weights, {}, buffers);
  return std::make_unique<Evaluator>(*std::move(network), batch, data, normalisation);
}

Evaluator::Evaluator(std::unique_ptr<Network> network, uint32_t batch, const Dataset* data,
                     const Normalisation& normalisation)
    : network_(std::move(network)),
      batch_(batch),
      data_(data),
      normalisation_(normalisation),
      images_(batch * data->PixelsPerImage()),
      labels_(batch) {}

absl::StatusOr<Score> Evaluator::Measure() {
  STRATA_REQUIRE(data_->size() > 0);
  std::vector<uint32_t> indices(batch_);
  LossSums sums;
  for (size_t begin = 0; begin < data_->size(); begin += batch_) {
    // The last batch may be short: what the network makes of the rest of the images is not counted.
    const size_t count = std::min<size_t>(batch_, data_->size() - begin);
    std::iota(indices.begin(), indices.end(), static_cast<uint32_t>(begin));
    FillBatch(*data_, normalisation_, absl::MakeConstSpan(indices).first(count), images_.data(),
              labels_.data());
    const auto nothing = [](int) { return absl::OkStatus(); };
    if (auto status = network_->Forward(images_.data(), 0, nothing); !status.ok()) return status;
    const auto batch = network_->Loss(absl::MakeConstSpan(labels_).first(count));
    if (!batch.ok()) return batch.status();
    sums.loss += batch->loss;
    sums.correct += batch->correct;
  }
  const double count = static_cast<double>(data_->size());
  return Score{static_cast<double>(sums.correct) / count, sums.loss / count};
}

}  // namespace strata::training

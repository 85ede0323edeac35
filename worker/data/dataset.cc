#include "worker/data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/status/status.h"
#include "worker/data/idx.h"
#include "worker/data/synthetic.h"

namespace strata::worker {
namespace {

void Limit(uint64_t samples, Dataset* data) {
  if (samples == 0 || samples >= data->size()) return;
  data->labels.resize(samples);
  data->pixels.resize(samples * data->PixelsPerImage());
}

}  // namespace

Normalisation Normalisation::Of(const Dataset& data) {
  std::array<uint64_t, 256> histogram{};
  for (uint8_t pixel : data.pixels) ++histogram[pixel];
  double sum = 0, squares = 0;
  for (int value = 0; value < 256; ++value) {
    sum += static_cast<double>(histogram[value]) * value;
    squares += static_cast<double>(histogram[value]) * value * value;
  }
  Normalisation result;
  if (data.pixels.empty()) return result;
  const double count = static_cast<double>(data.pixels.size());
  const double mean = sum / count;
  const double variance = squares / count - mean * mean;
  result.mean = static_cast<float>(mean / 255);
  if (variance > 0) result.deviation = static_cast<float>(std::sqrt(variance) / 255);
  return result;
}

void FillBatch(const Dataset& data, const Normalisation& normalisation,
               absl::Span<const uint32_t> indices, float* images, uint8_t* labels) {
  const size_t pixels = data.PixelsPerImage();
  const float scale = 1.0f / (255.0f * normalisation.deviation);
  const float offset = normalisation.mean / normalisation.deviation;
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint8_t* from = data.pixels.data() + indices[i] * pixels;
    float* to = images + i * pixels;
    for (size_t p = 0; p < pixels; ++p) to[p] = static_cast<float>(from[p]) * scale - offset;
    labels[i] = data.labels[indices[i]];
  }
}

absl::StatusOr<TrainAndTest> LoadData(const proto::Data& data, uint64_t seed) {
  absl::StatusOr<TrainAndTest> loaded =
      absl::InvalidArgumentError("data: neither idx nor synthetic is given");
  if (data.has_idx()) loaded = ReadIdxFolder(data.idx().dir());
  if (data.has_synthetic()) loaded = MakeSynthetic(data.synthetic(), seed);
  if (!loaded.ok()) return loaded;
  Limit(data.limit_train(), &loaded->train);
  Limit(data.limit_test(), &loaded->test);
  return loaded;
}

absl::StatusOr<uint64_t> CountTrainingSamples(const proto::Data& data) {
  absl::StatusOr<uint64_t> samples =
      absl::InvalidArgumentError("data: neither idx nor synthetic is given");
  if (data.has_idx()) samples = CountIdxTrainingSamples(data.idx().dir());
  if (data.has_synthetic()) samples = SyntheticTrainingSamples(data.synthetic());
  if (samples.ok() && data.limit_train() > 0) *samples = std::min(*samples, data.limit_train());
  return samples;
}

}  // namespace strata::worker

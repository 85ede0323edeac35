#include "training/data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "training/data/cifar10.h"
#include "training/data/idx.h"
#include "training/data/synthetic.h"

namespace strata::training {
namespace {

constexpr size_t kNormalisedByMax = 256;  // images that a maker makes for Normalisation::Of

void Limit(uint64_t samples, Dataset* data) {
  if (samples == 0 || samples >= data->size()) return;
  data->labels.resize(samples);
  if (data->maker == nullptr) data->pixels.resize(samples * data->PixelsPerImage());
}

absl::Status NoSource() { return absl::InvalidArgumentError("data: no source is given"); }

// The pixels of a sample, made in `scratch` where they have to be.
const uint8_t* PixelsOf(const Dataset& data, uint64_t sample, std::vector<uint8_t>* scratch) {
  const size_t pixels = data.PixelsPerImage();
  if (data.maker == nullptr) return data.pixels.data() + sample * pixels;
  scratch->resize(pixels);
  data.maker->Make(sample, scratch->data());
  return scratch->data();
}

void Normalise(const uint8_t* __restrict__ pixels, size_t count, float scale, float offset,
               float* __restrict__ to) {
  for (size_t p = 0; p < count; ++p) to[p] = static_cast<float>(pixels[p]) * scale - offset;
}

using Histogram = std::array<uint64_t, 256>;

Normalisation::Channel ChannelOf(const Histogram& histogram) {
  double sum = 0, squares = 0, count = 0;
  for (int value = 0; value < 256; ++value) {
    const double pixels = static_cast<double>(histogram[value]);
    count += pixels;
    sum += pixels * value;
    squares += pixels * value * value;
  }
  Normalisation::Channel result;
  const double mean = sum / count;
  const double variance = squares / count - mean * mean;
  result.mean = static_cast<float>(mean / 255);
  if (variance > 0) result.deviation = static_cast<float>(std::sqrt(variance) / 255);
  return result;
}

}  // namespace

Normalisation Normalisation::Of(const Dataset& data) {
  const size_t plane = size_t{data.height} * data.width;
  const size_t samples =
      data.maker == nullptr ? data.size() : std::min(data.size(), kNormalisedByMax);
  Normalisation result;
  if (samples == 0) return result;
  std::vector<Histogram> histograms(data.channels, Histogram{});
  std::vector<uint8_t> scratch;
  for (size_t sample = 0; sample < samples; ++sample) {
    const uint8_t* pixels = PixelsOf(data, sample, &scratch);
    for (Histogram& histogram : histograms) {
      for (size_t p = 0; p < plane; ++p) ++histogram[*pixels++];
    }
  }
  for (const Histogram& histogram : histograms) result.channels.push_back(ChannelOf(histogram));
  return result;
}

void FillBatch(const Dataset& data, const Normalisation& normalisation,
               absl::Span<const uint32_t> indices, float* images, uint16_t* labels) {
  const size_t plane = size_t{data.height} * data.width;
  std::vector<Normalisation::Channel> channels = normalisation.channels;
  channels.resize(data.channels);
  std::vector<uint8_t> scratch;
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint8_t* from = PixelsOf(data, indices[i], &scratch);
    for (const Normalisation::Channel& channel : channels) {
      const float scale = 1.0f / (255.0f * channel.deviation);
      const float offset = channel.mean / channel.deviation;
      Normalise(from, plane, scale, offset, images);
      from += plane;
      images += plane;
    }
    labels[i] = data.labels[indices[i]];
  }
}

absl::StatusOr<TrainAndTest> LoadData(const proto::Data& data, uint64_t seed) {
  absl::StatusOr<TrainAndTest> loaded = NoSource();
  std::string name;
  if (data.has_idx()) {
    name = absl::StrCat("data.idx ", data.idx().dir());
    loaded = ReadIdxFolder(data.idx().dir());
  } else if (data.has_cifar10()) {
    name = absl::StrCat("data.cifar10 ", data.cifar10().dir());
    loaded = ReadCifar10Folder(data.cifar10().dir());
  } else if (data.has_synthetic()) {
    name = "data.synthetic";
    loaded = MakeSynthetic(data.synthetic(), seed);
  } else if (data.has_synthetic_imagenet()) {
    name = "data.synthetic_imagenet";
    loaded = MakeSyntheticImageNet(data.synthetic_imagenet(), seed);
  }
  if (!loaded.ok()) return loaded;
  loaded->train.name = loaded->test.name = name;
  Limit(data.limit_train(), &loaded->train);
  Limit(data.limit_test(), &loaded->test);
  return loaded;
}

absl::StatusOr<uint64_t> CountTrainingSamples(const proto::Data& data) {
  absl::StatusOr<uint64_t> samples = NoSource();
  if (data.has_idx()) samples = CountIdxTrainingSamples(data.idx().dir());
  if (data.has_cifar10()) samples = CountCifar10TrainingSamples(data.cifar10().dir());
  if (data.has_synthetic()) samples = SyntheticTrainingSamples(data.synthetic());
  if (data.has_synthetic_imagenet()) {
    samples = SyntheticImageNetTrainingSamples(data.synthetic_imagenet());
  }
  if (samples.ok() && data.limit_train() > 0) *samples = std::min(*samples, data.limit_train());
  return samples;
}

}  // namespace strata::training

#include "training/data/synthetic.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/random.h"

namespace strata::worker {
namespace {

constexpr uint64_t kBytesMax = uint64_t{2} << 30;
constexpr uint64_t kPatternStream = 0x7061747465726eu;
constexpr uint64_t kTrainStream = 0x747261696eu;
constexpr uint64_t kTestStream = 0x74657374u;

Dataset MakeSamples(const Dataset& shape, const std::vector<uint8_t>& patterns, uint64_t samples,
                    uint64_t key) {
  Dataset data = shape;
  const size_t pixels = shape.PixelsPerImage();
  data.labels.resize(samples);
  data.pixels.resize(samples * pixels);
  for (uint64_t sample = 0; sample < samples; ++sample) {
    const uint64_t sample_key = RandomKey(key, sample);
    const uint64_t label = RandomBelow(sample_key, ~uint64_t{0}, shape.classes);
    data.labels[sample] = static_cast<uint16_t>(label);
    for (size_t p = 0; p < pixels; ++p) {
      // Four uniform bytes: a bell-shaped noise of standard deviation 74 after the subtraction.
      const uint64_t bits = RandomBits(sample_key, p);
      const int noise = static_cast<int>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) +
                                         (bits >> 24 & 255)) /
                            2 -
                        255;
      const int value = patterns[label * pixels + p] + noise;
      data.pixels[sample * pixels + p] = static_cast<uint8_t>(std::clamp(value, 0, 255));
    }
  }
  return data;
}

}  // namespace

absl::StatusOr<TrainAndTest> MakeSynthetic(const proto::Synthetic& config, uint64_t seed) {
  Dataset shape;
  shape.classes = config.classes() == 0 ? 10 : config.classes();
  shape.channels = config.channels() == 0 ? 1 : config.channels();
  shape.height = config.height() == 0 ? 28 : config.height();
  shape.width = config.width() == 0 ? 28 : config.width();
  const uint64_t train = SyntheticTrainingSamples(config);
  const uint64_t test = config.test_samples() == 0 ? 512 : config.test_samples();
  if (shape.classes < 2 || shape.classes > 65536) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic.classes is ", shape.classes, ": 2 to 65536 are possible"));
  }
  if (shape.channels > 4096 || shape.height > 4096 || shape.width > 4096) {
    return absl::InvalidArgumentError(absl::StrCat("data.synthetic: images of ", shape.channels,
                                                   " x ", shape.height, " x ", shape.width,
                                                   " are too large: at most 4096 each"));
  }
  const uint64_t image_bytes = shape.PixelsPerImage();
  if (image_bytes > kBytesMax / 256 || train > kBytesMax / image_bytes ||
      test > kBytesMax / image_bytes || shape.classes > kBytesMax / image_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.synthetic: more than ", kBytesMax, " bytes of images"));
  }
  std::vector<uint8_t> patterns(shape.classes * shape.PixelsPerImage());
  const uint64_t key = RandomKey(seed, kPatternStream);
  for (size_t i = 0; i < patterns.size(); ++i) {
    patterns[i] = static_cast<uint8_t>(RandomBits(key, i) >> 56);
  }
  return TrainAndTest{MakeSamples(shape, patterns, train, RandomKey(seed, kTrainStream)),
                      MakeSamples(shape, patterns, test, RandomKey(seed, kTestStream))};
}

uint64_t SyntheticTrainingSamples(const proto::Synthetic& config) {
  return config.train_samples() == 0 ? 4096 : config.train_samples();
}

}  // namespace strata::worker

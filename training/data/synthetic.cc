#include "training/data/synthetic.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/random.h"

namespace strata::training {
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

namespace {

constexpr uint64_t kImagePatternStream = 0x73717561726573u;
constexpr uint64_t kImageNoiseStream = 0x6e6f697365u;
constexpr uint64_t kImageTrainStream = 0x696d747261696eu;
constexpr uint64_t kImageTestStream = 0x696d74657374u;

constexpr uint32_t kChannels = 3;
constexpr uint32_t kSquares = 16;  // along a row
constexpr uint32_t kSizeMin = 16, kSizeMax = 1024;
constexpr uint32_t kClassesMax = 65536;
constexpr uint64_t kSamplesMax = uint64_t{1} << 26;
constexpr uint64_t kNoiseRows = uint64_t{1} << 20;  // a row of noise may begin at each

// Shared by training and test images: the patterns follow from the key; the noise is drawn once,
// because drawing 150,528 pixels for each image would take longer than a GPU needs for it.
struct Material {
  uint64_t pattern_key = 0;
  std::vector<int8_t> noise;  // standard deviation 37

  explicit Material(uint64_t seed)
      : pattern_key(RandomKey(seed, kImagePatternStream)), noise(kNoiseRows + kSizeMax) {
    const uint64_t key = RandomKey(seed, kImageNoiseStream);
    for (size_t i = 0; i < noise.size(); ++i) {
      const uint64_t bits = RandomBits(key, i);
      const int sum = static_cast<int>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) +
                                       (bits >> 24 & 255));
      noise[i] = static_cast<int8_t>(sum / 4 - 128);
    }
  }
};

// Colours with noise, of `count` pixels. In 16 bits, which the compiler makes vectors of.
void AddNoise(const uint8_t* __restrict__ colours, const int8_t* __restrict__ noise, size_t count,
              uint8_t* __restrict__ pixels) {
  for (size_t i = 0; i < count; ++i) {
    auto sum = static_cast<int16_t>(colours[i] + noise[i]);
    sum = sum < 0 ? int16_t{0} : sum;
    pixels[i] = static_cast<uint8_t>(sum > 255 ? int16_t{255} : sum);
  }
}

class SquaresMaker : public PixelMaker {
 public:
  SquaresMaker(std::shared_ptr<const Material> material, uint32_t size, uint32_t classes,
               uint64_t key)
      : material_(std::move(material)), size_(size), classes_(classes), key_(key) {}

  uint16_t Label(uint64_t sample) const {
    return static_cast<uint16_t>(RandomBelow(RandomKey(key_, sample), ~uint64_t{0}, classes_));
  }

  void Make(uint64_t sample, uint8_t* pixels) const override {
    const uint64_t sample_key = RandomKey(key_, sample);
    const uint64_t pattern_key = RandomKey(material_->pattern_key, Label(sample));
    std::array<uint8_t, kSizeMax> colours;  // of a row without noise
    for (uint32_t channel = 0; channel < kChannels; ++channel) {
      uint32_t row_of_squares = kSquares;  // of `colours`
      for (uint32_t y = 0; y < size_; ++y) {
        const uint32_t wanted = y * kSquares / size_;
        if (wanted != row_of_squares) {
          row_of_squares = wanted;
          FillColours(pattern_key, (channel * kSquares + wanted) * kSquares, colours.data());
        }
        const uint64_t begin = RandomBits(sample_key, channel * size_ + y) % kNoiseRows;
        AddNoise(colours.data(), material_->noise.data() + begin, size_, pixels);
        pixels += size_;
      }
    }
  }

 private:
  void FillColours(uint64_t pattern_key, uint64_t first_square, uint8_t* colours) const {
    std::array<uint8_t, kSquares> of_squares;
    for (uint32_t i = 0; i < kSquares; ++i) {
      of_squares[i] = static_cast<uint8_t>(RandomBits(pattern_key, first_square + i) >> 56);
    }
    for (uint32_t x = 0; x < size_; ++x) colours[x] = of_squares[x * kSquares / size_];
  }

  const std::shared_ptr<const Material> material_;
  const uint32_t size_, classes_;
  const uint64_t key_;
};

Dataset MakeSet(std::shared_ptr<const Material> material, uint32_t size, uint32_t classes,
                uint64_t samples, uint64_t key) {
  const auto maker = std::make_shared<SquaresMaker>(std::move(material), size, classes, key);
  Dataset data;
  data.channels = kChannels;
  data.height = data.width = size;
  data.classes = classes;
  data.labels.resize(samples);
  for (uint64_t i = 0; i < samples; ++i) data.labels[i] = maker->Label(i);
  data.maker = maker;
  return data;
}

absl::Status OutOfRange(const char* field, uint64_t value, uint64_t min, uint64_t max) {
  return absl::InvalidArgumentError(absl::StrCat("data.synthetic_imagenet.", field, " is ", value,
                                                 ": ", min, " to ", max, " are possible"));
}

}  // namespace

absl::StatusOr<TrainAndTest> MakeSyntheticImageNet(const proto::SyntheticImageNet& config,
                                                   uint64_t seed) {
  const uint32_t classes = config.classes() == 0 ? 1000 : config.classes();
  const uint32_t size = config.size() == 0 ? 224 : config.size();
  const uint64_t train = SyntheticImageNetTrainingSamples(config);
  const uint64_t test = config.test_samples() == 0 ? 512 : config.test_samples();
  if (classes < 2 || classes > kClassesMax) return OutOfRange("classes", classes, 2, kClassesMax);
  if (size < kSizeMin || size > kSizeMax) return OutOfRange("size", size, kSizeMin, kSizeMax);
  if (train > kSamplesMax) return OutOfRange("train_samples", train, 1, kSamplesMax);
  if (test > kSamplesMax) return OutOfRange("test_samples", test, 1, kSamplesMax);
  const auto material = std::make_shared<const Material>(seed);
  return TrainAndTest{MakeSet(material, size, classes, train, RandomKey(seed, kImageTrainStream)),
                      MakeSet(material, size, classes, test, RandomKey(seed, kImageTestStream))};
}

uint64_t SyntheticImageNetTrainingSamples(const proto::SyntheticImageNet& config) {
  return config.train_samples() == 0 ? 1281167 : config.train_samples();
}

}  // namespace strata::training

#include "training/data/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <vector>

namespace strata::training {

namespace {

TEST(Synthetic, DefaultsAreThoseOfTheJobFile) {
  auto data = MakeSynthetic({}, 1);
  ASSERT_TRUE(data.ok());
  EXPECT_EQ(data->train.size(), 4096u);
  EXPECT_EQ(data->test.size(), 512u);
  EXPECT_EQ(data->train.PixelsPerImage(), 784u);
  EXPECT_EQ(data->train.pixels.size(), 4096u * 784);
  EXPECT_EQ(std::set<int>(data->train.labels.begin(), data->train.labels.end()).size(), 10u);
}

TEST(Synthetic, TheSeedDecidesEveryBit) {
  auto a = MakeSynthetic({}, 1), b = MakeSynthetic({}, 1), c = MakeSynthetic({}, 2);
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_EQ(a->train.pixels, b->train.pixels);
  EXPECT_EQ(a->test.labels, b->test.labels);
  EXPECT_NE(a->train.pixels, c->train.pixels);
}

TEST(Synthetic, HasMoreClassesThanAByteCounts) {
  proto::Synthetic config;
  config.set_classes(1000);
  config.set_height(2);
  config.set_width(2);
  auto data = MakeSynthetic(config, 1);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_GT(*std::max_element(data->train.labels.begin(), data->train.labels.end()), 900);
}

TEST(Synthetic, TrainAndTestShareTheirClasses) {
  // The mean training image of the right class is the nearest one for nearly every test image.
  auto data = MakeSynthetic({}, 3);
  ASSERT_TRUE(data.ok());
  const size_t pixels = data->train.PixelsPerImage();
  std::vector<double> means(10 * pixels), counts(10);
  for (size_t i = 0; i < data->train.size(); ++i) {
    ++counts[data->train.labels[i]];
    for (size_t p = 0; p < pixels; ++p) {
      means[data->train.labels[i] * pixels + p] += data->train.pixels[i * pixels + p];
    }
  }
  int right = 0;
  for (size_t i = 0; i < data->test.size(); ++i) {
    double best = std::numeric_limits<double>::max();
    size_t nearest = 0;
    for (size_t c = 0; c < 10; ++c) {
      double distance = 0;
      for (size_t p = 0; p < pixels; ++p) {
        const double d = data->test.pixels[i * pixels + p] - means[c * pixels + p] / counts[c];
        distance += d * d;
      }
      if (distance < best) best = distance, nearest = c;
    }
    right += nearest == data->test.labels[i];
  }
  EXPECT_GT(right, 500);
}

TEST(Synthetic, ImpossibleSizesAreRefusedByName) {
  proto::Synthetic config;
  config.set_classes(1);
  auto data = MakeSynthetic(config, 1);
  EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(data.status().message(), "data.synthetic.classes is 1: 2 to 65536 are possible");
  config.set_classes(2);
  config.set_train_samples(uint64_t{1} << 60);
  EXPECT_EQ(MakeSynthetic(config, 1).status().code(), absl::StatusCode::kInvalidArgument);
  config.set_train_samples(10);
  config.set_classes(65536);
  config.set_height(4096);  // patterns of 65,536 classes would need more than 2 GiB
  config.set_width(16);
  EXPECT_EQ(MakeSynthetic(config, 1).status().code(), absl::StatusCode::kInvalidArgument);
  config.set_classes(2);
  config.set_height(1u << 31);
  EXPECT_EQ(MakeSynthetic(config, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

std::vector<uint8_t> Pixels(const Dataset& data, uint64_t sample) {
  std::vector<uint8_t> pixels(data.PixelsPerImage());
  data.maker->Make(sample, pixels.data());
  return pixels;
}

TEST(SyntheticImageNet, HasImageNetsShapeInLittleMemory) {
  const auto data = MakeSyntheticImageNet({}, 1);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 1281167u);
  EXPECT_EQ(data->test.size(), 512u);
  EXPECT_EQ(data->train.channels, 3u);
  EXPECT_EQ(data->train.height, 224u);
  EXPECT_EQ(data->train.width, 224u);
  EXPECT_EQ(data->train.classes, 1000u);
  EXPECT_TRUE(data->train.pixels.empty());
  EXPECT_EQ(std::set<int>(data->train.labels.begin(), data->train.labels.end()).size(), 1000u);
}

TEST(SyntheticImageNet, TheSeedDecidesEveryPixelInWhateverOrderTheyAreMade) {
  const auto a = *MakeSyntheticImageNet({}, 1), b = *MakeSyntheticImageNet({}, 1);
  const auto c = *MakeSyntheticImageNet({}, 2);
  const auto last = Pixels(a.train, 1281166), first = Pixels(a.train, 0);
  EXPECT_EQ(Pixels(b.train, 0), first);
  EXPECT_EQ(Pixels(b.train, 1281166), last);
  EXPECT_EQ(a.train.labels, b.train.labels);
  EXPECT_NE(Pixels(c.train, 0), first);
  EXPECT_NE(Pixels(a.test, 0), first);
  EXPECT_NE(first, last);
}

TEST(SyntheticImageNet, TrainAndTestShareTheirClasses) {
  // Noise is small beside what tells classes apart: a training image of the right class is nearest.
  proto::SyntheticImageNet config;
  config.set_classes(10);
  config.set_size(64);
  config.set_train_samples(64);
  config.set_test_samples(100);
  const auto data = *MakeSyntheticImageNet(config, 3);
  int right = 0;
  for (size_t i = 0; i < data.test.size(); ++i) {
    const auto image = Pixels(data.test, i);
    double best = std::numeric_limits<double>::max();
    uint16_t nearest = 0;
    for (size_t j = 0; j < data.train.size(); ++j) {
      const auto other = Pixels(data.train, j);
      double distance = 0;
      for (size_t p = 0; p < image.size(); ++p) {
        const double d = image[p] - other[p];
        distance += d * d;
      }
      if (distance < best) best = distance, nearest = data.train.labels[j];
    }
    right += nearest == data.test.labels[i];
    // Two images of one class are not the same one.
    EXPECT_GT(best / image.size(), 100.0);
  }
  EXPECT_GT(right, 95);
}

TEST(SyntheticImageNet, BatchesAreNormalisedAndLimitsHold) {
  proto::Data config;
  config.mutable_synthetic_imagenet()->set_size(32);
  config.set_limit_train(300);
  config.set_limit_test(7);
  const auto data = *LoadData(config, 1);
  EXPECT_EQ(data.train.size(), 300u);
  EXPECT_EQ(data.test.size(), 7u);
  EXPECT_EQ(*CountTrainingSamples(config), 300u);
  const Normalisation normalisation = Normalisation::Of(data.train);
  ASSERT_EQ(normalisation.channels.size(), 3u);
  std::vector<uint32_t> indices(300);
  for (uint32_t i = 0; i < 300; ++i) indices[i] = i;
  std::vector<float> images(300 * data.train.PixelsPerImage());
  std::vector<uint16_t> labels(300);
  FillBatch(data.train, normalisation, absl::MakeConstSpan(indices), images.data(), labels.data());
  double sum = 0, squares = 0;
  for (float value : images) sum += value, squares += double{value} * value;
  EXPECT_NEAR(sum / images.size(), 0, 0.02);
  EXPECT_NEAR(squares / images.size(), 1, 0.02);
  EXPECT_EQ(labels, data.train.labels);
}

TEST(SyntheticImageNet, ImpossibleSizesAreRefusedByName) {
  proto::SyntheticImageNet config;
  config.set_classes(1);
  EXPECT_EQ(MakeSyntheticImageNet(config, 1).status().message(),
            "data.synthetic_imagenet.classes is 1: 2 to 65536 are possible");
  config.set_classes(2);
  config.set_size(2000);
  EXPECT_EQ(MakeSyntheticImageNet(config, 1).status().message(),
            "data.synthetic_imagenet.size is 2000: 16 to 1024 are possible");
  config.set_size(16);
  config.set_train_samples(uint64_t{1} << 40);
  EXPECT_EQ(MakeSyntheticImageNet(config, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace

}  // namespace strata::training

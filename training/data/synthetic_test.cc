#include "training/data/synthetic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <vector>

namespace strata::worker {
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

}  // namespace
}  // namespace strata::worker

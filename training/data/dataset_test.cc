#include "training/data/dataset.h"

#include <gtest/gtest.h>

namespace strata::worker {
namespace {

TEST(Normalisation, GivesZeroMeanAndUnitDeviation) {
  Dataset data;
  data.channels = data.height = 1;
  data.width = 2;
  data.classes = 2;
  data.pixels = {0, 10, 20, 30};
  data.labels = {0, 1};
  const Normalisation normalisation = Normalisation::Of(data);
  float images[4];
  uint16_t labels[2];
  FillBatch(data, normalisation, {1, 0}, images, labels);
  // Deviation of 0, 10, 20, 30: the root of 125.
  const float unit = 11.18034f;
  EXPECT_NEAR(images[0], 5 / unit, 1e-5);
  EXPECT_NEAR(images[1], 15 / unit, 1e-5);
  EXPECT_NEAR(images[2], -15 / unit, 1e-5);
  EXPECT_NEAR(images[3], -5 / unit, 1e-5);
  EXPECT_EQ(labels[0], 1);
  EXPECT_EQ(labels[1], 0);
}

TEST(Normalisation, IsOfEachChannelForItself) {
  Dataset data;
  data.channels = 2;
  data.height = data.width = 1;
  data.classes = 2;
  data.pixels = {10, 100, 30, 104};
  data.labels = {0, 1};
  float images[4];
  uint16_t labels[2];
  FillBatch(data, Normalisation::Of(data), {0, 1}, images, labels);
  EXPECT_NEAR(images[0], -1, 1e-5);
  EXPECT_NEAR(images[1], -1, 1e-5);
  EXPECT_NEAR(images[2], 1, 1e-5);
  EXPECT_NEAR(images[3], 1, 1e-5);
}

TEST(Normalisation, OfEqualPixelsOnlyTakesTheMeanOff) {
  Dataset data;
  data.channels = data.height = data.width = 1;
  data.classes = 2;
  data.pixels = {51, 51};
  data.labels = {0, 1};
  float image;
  uint16_t label;
  FillBatch(data, Normalisation::Of(data), {1}, &image, &label);
  EXPECT_NEAR(image, 0, 1e-6);
  FillBatch(data, {}, {1}, &image, &label);
  EXPECT_FLOAT_EQ(image, 0.2f);
}

TEST(LoadData, SaysWhichFieldTheImagesComeFrom) {
  proto::Data config;
  EXPECT_EQ(LoadData(config, 1).status().code(), absl::StatusCode::kInvalidArgument);
  config.mutable_synthetic()->set_train_samples(8);
  EXPECT_EQ(LoadData(config, 1)->train.name, "data.synthetic");
  config.mutable_synthetic_imagenet()->set_train_samples(8);
  EXPECT_EQ(LoadData(config, 1)->test.name, "data.synthetic_imagenet");
}

}  // namespace
}  // namespace strata::worker

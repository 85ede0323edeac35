#include "common/image/join_images.h"

#include <vector>

#include "common/image/image_bytes.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

std::vector<float> Floats(const Bytes& bytes) {
  return {bytes.floats(), bytes.floats() + bytes.float_count()};
}

std::vector<ChunkImage> Images() {
  std::vector<ChunkImage> images;
  images.push_back({.begin = 0, .clock = 4, .weights = {.version = 4, .updates = 4}});
  images[0].weights.weights = FloatBytes({0, 1, 2});
  images[0].weights.state = {FloatBytes({0, 10, 20})};
  images.push_back({.begin = 3, .clock = 4, .weights = {.version = 4, .updates = 4}});
  images[1].weights.weights = FloatBytes({3, 4});
  images[1].weights.state = {FloatBytes({30, 40})};
  return images;
}

TEST(JoinImages, RangesMayBeCutInOtherPlaces) {
  const std::vector<ChunkImage> images = Images();
  const absl::StatusOr<ChunkImage> joined = JoinImages(images, 1, 3);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(joined->begin, 1);
  EXPECT_EQ(joined->clock, 4);
  EXPECT_EQ(joined->weights.updates, 4);
  EXPECT_EQ(Floats(joined->weights.weights), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(Floats(joined->weights.state[0]), (std::vector<float>{10, 20, 30}));
  EXPECT_TRUE(joined->copy.empty());
  EXPECT_EQ(Floats(JoinImages(images, 4, 1)->weights.state[0]), std::vector<float>{40});
}

TEST(JoinImages, WhatIsMissingIsNamed) {
  std::vector<ChunkImage> images = Images();
  EXPECT_EQ(JoinImages(images, 3, 3).status(), absl::DataLossError("no image has element 5"));
  images[1].begin = 4;
  EXPECT_EQ(JoinImages(images, 0, 5).status(), absl::DataLossError("no image has element 3"));
}

TEST(JoinImages, ImagesOfTwoMomentsAreNotJoined) {
  std::vector<ChunkImage> images = Images();
  images[1].weights.updates = 5;
  EXPECT_EQ(JoinImages(images, 1, 3).status(),
            absl::DataLossError("the images of elements 0 and 3 have other counts"));
  EXPECT_TRUE(JoinImages(images, 3, 2).ok());
}

}  // namespace
}  // namespace strata

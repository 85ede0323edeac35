#include <vector>

#include "common/image/chunk_image.h"
#include "common/image/cut_collector.h"
#include "common/image/image_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using testing::HasSubstr;

using Collector = CutCollector<ChunkImage>;

void Add(Collector* collector, size_t chunk, std::vector<uint64_t> clocks) {
  for (uint64_t clock : clocks) {
    collector->Add(chunk, clock, {.clock = clock, .weights = {.weights = FloatBytes({1, 2})}});
  }
}

TEST(CutCollector, GivesACutOnceAllChunksHaveComeToItsClock) {
  Collector collector({512, 0});
  Add(&collector, 0, {10});
  EXPECT_TRUE(collector.Take().empty());
  EXPECT_EQ(collector.bytes(), 8);
  Add(&collector, 1, {10});
  const std::vector<Cut<ChunkImage>> cuts = collector.Take();
  ASSERT_EQ(cuts.size(), 1);
  EXPECT_EQ(cuts[0].clock, 10);
  ASSERT_EQ(cuts[0].images.size(), 2);
  EXPECT_EQ(cuts[0].images[0].begin, 0);
  EXPECT_EQ(cuts[0].images[1].begin, 512);
  EXPECT_EQ(cuts[0].problem, "");
  EXPECT_EQ(collector.bytes(), 0);
  EXPECT_TRUE(collector.Take().empty());
}

TEST(CutCollector, AChunkMayBeSeveralClocksAhead) {
  Collector collector({0, 512});
  Add(&collector, 0, {10, 20});
  Add(&collector, 1, {10});
  EXPECT_EQ(collector.Take().size(), 1);
  Add(&collector, 1, {20});
  ASSERT_EQ(collector.Take().size(), 1);
}

TEST(CutCollector, HoldsTwoCutsAtMostAndSaysSoOfTheNext) {
  Collector collector({0, 512});
  for (size_t chunk : {0, 1}) Add(&collector, chunk, {10, 20});
  ASSERT_EQ(collector.Take().size(), 2);
  Add(&collector, 0, {30});
  const std::vector<Cut<ChunkImage>> refused = collector.Take();
  ASSERT_EQ(refused.size(), 1);
  EXPECT_EQ(refused[0].clock, 30);
  EXPECT_TRUE(refused[0].images.empty());
  EXPECT_THAT(refused[0].problem, HasSubstr("checkpoint of clock 10 is not written yet"));
  collector.LetGo(10);
  // The other chunk of that clock comes too late to complete it.
  Add(&collector, 1, {30});
  EXPECT_TRUE(collector.Take().empty());
  EXPECT_EQ(collector.bytes(), 0);
  for (size_t chunk : {0, 1}) Add(&collector, chunk, {40});
  ASSERT_EQ(collector.Take().size(), 1);
}

TEST(CutCollector, ACutOfOneChunkSkipsAndGoesOn) {
  Collector collector({0});
  Add(&collector, 0, {1, 2, 3, 4});
  const std::vector<Cut<ChunkImage>> cuts = collector.Take();
  ASSERT_EQ(cuts.size(), 4);
  EXPECT_EQ(cuts[1].problem, "");
  EXPECT_NE(cuts[2].problem, "");
  EXPECT_NE(cuts[3].problem, "");
  collector.LetGo(1);
  Add(&collector, 0, {5});
  EXPECT_EQ(collector.Take()[0].problem, "");
}

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

TEST(JoinImages, AnImageWithoutMissedUpdatesHasMissedNone) {
  std::vector<ChunkImage> images = Images();
  EXPECT_TRUE(JoinImages(images, 1, 3)->weights.missed.empty());
  images[1].weights.missed = FloatBytes({2, 1});
  EXPECT_EQ(Floats(JoinImages(images, 1, 3)->weights.missed), (std::vector<float>{0, 0, 2}));
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

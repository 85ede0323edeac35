#include "worker/client/link/arena_image.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace strata::client {
namespace {

std::vector<float> Numbers(size_t count, float first) {
  std::vector<float> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// 600 elements, with the two vectors of Adam.
std::vector<ChunkImage> CutInto(uint32_t chunk_elements, uint64_t steps) {
  ArenaImage image(600, 2);
  const std::vector<float> weights = Numbers(600, 0), m = Numbers(600, 1000), v = Numbers(600, 5e3);
  image.CopyFrom(weights.data(), m.data(), v.data());
  return image.Chunks(ChunkMap(600, chunk_elements), steps, 77);
}

TEST(ArenaImageTest, ChunksHaveTheirPartOfEachVectorAndTheCounts) {
  const std::vector<ChunkImage> images = CutInto(256, 5);
  ASSERT_EQ(images.size(), 3u);
  EXPECT_EQ(images[2].begin, 512u);
  EXPECT_EQ(images[2].clock, 5u);
  EXPECT_EQ(images[2].weights.version, 5u);
  EXPECT_EQ(images[2].weights.updates, 5u);
  EXPECT_EQ(images[2].weights.samples, 77u);
  ASSERT_EQ(images[2].weights.weights.float_count(), 88u);
  EXPECT_EQ(images[2].weights.weights.floats()[87], 599.0f);
  ASSERT_EQ(images[2].weights.state.size(), 2u);
  EXPECT_EQ(images[2].weights.state[1].floats()[0], 5512.0f);
}

TEST(ArenaImageTest, GoesOnFromChunksOfAnySize) {
  for (const uint32_t chunk_elements : {256u, 1024u}) {
    const absl::StatusOr<ArenaImage> image = ArenaImage::Join(CutInto(chunk_elements, 5), 600, 2);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->samples(), 77u);
    std::vector<float> weights(600), m(600), v(600);
    image->CopyTo(weights.data(), m.data(), v.data());
    EXPECT_EQ(weights, Numbers(600, 0));
    EXPECT_EQ(m, Numbers(600, 1000));
    EXPECT_EQ(v, Numbers(600, 5e3));
  }
}

TEST(ArenaImageTest, AnotherArenaOrOptimizerIsRefused) {
  EXPECT_EQ(ArenaImage::Join(CutInto(256, 5), 601, 2).status().code(), absl::StatusCode::kDataLoss);
  const absl::Status states = ArenaImage::Join(CutInto(256, 5), 600, 1).status();
  EXPECT_EQ(states.message(),
            "the checkpoint has 2 vectors of optimizer state, the job's optimizer 1");
  std::vector<ChunkImage> images = CutInto(256, 5);
  images[1] = CutInto(256, 6)[1];
  EXPECT_EQ(ArenaImage::Join(images, 600, 2).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace strata::client

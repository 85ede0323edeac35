#include "common/job/arena.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

void AddSegment(const std::string& name, std::vector<uint64_t> shape, float lr, float decay,
                proto::Layout* layout) {
  proto::Segment* segment = layout->add_segments();
  segment->set_name(name);
  uint64_t size = 1;
  for (uint64_t extent : shape) {
    segment->add_shape(extent);
    size *= extent;
  }
  segment->set_offset(layout->elements());
  segment->set_lr_multiplier(lr);
  segment->set_decay_multiplier(decay);
  layout->set_elements(layout->elements() + size);
}

proto::Layout TwoLayers() {
  proto::Layout layout;
  AddSegment("fc2.weight", {10, 30}, 1, 1, &layout);
  AddSegment("fc2.bias", {10}, 1, 0, &layout);
  AddSegment("fc1.weight", {30, 20}, 1, 1, &layout);
  AddSegment("fc1.bias", {30}, 1, 0, &layout);
  return layout;
}

TEST(ChunkMap, CutsTheArenaIntoEqualChunksAndAShorterLastOne) {
  const ChunkMap map(1000, 300);
  EXPECT_EQ(map.chunks(), 4);
  EXPECT_EQ(map.OffsetOf(ChunkId(3)), 900);
  EXPECT_EQ(map.ElementsOf(ChunkId(0)), 300);
  EXPECT_EQ(map.ElementsOf(ChunkId(3)), 100);
  EXPECT_EQ(map.ChunkAt(0), ChunkId(0));
  EXPECT_EQ(map.ChunkAt(299), ChunkId(0));
  EXPECT_EQ(map.ChunkAt(300), ChunkId(1));
  EXPECT_EQ(map.ChunkAt(999), ChunkId(3));
}

TEST(ChunkMap, AnArenaThatDividesEvenlyHasNoEmptyChunk) {
  const ChunkMap map(900, 300);
  EXPECT_EQ(map.chunks(), 3);
  EXPECT_EQ(map.ElementsOf(ChunkId(2)), 300);
}

TEST(DefaultChunkElements, IsOneChunkUpTo512KiB) {
  EXPECT_EQ(DefaultChunkElements(61706, 4), 61706);
  EXPECT_EQ(DefaultChunkElements(131072, 4), 131072);
}

TEST(DefaultChunkElements, IsClampedBetween64KiBAnd1MiB) {
  EXPECT_EQ(DefaultChunkElements(131073, 4), 16384);
  EXPECT_EQ(DefaultChunkElements(1'000'000'000, 1), 262144);
}

TEST(DefaultChunkElements, IsMOver128TimesShardsBetweenTheBounds) {
  // 8,388,608 fp32 = 32 MiB; over 128 * 2 chunks: 128 KiB.
  EXPECT_EQ(DefaultChunkElements(8'388'608, 2), 32768);
  // Rounded down to a cache line: 20,000,000 / 256 = 78125 elements.
  EXPECT_EQ(DefaultChunkElements(20'000'000, 2), 78112);
}

TEST(ValidateLayout, AcceptsTensorsBackToBack) { EXPECT_TRUE(ValidateLayout(TwoLayers()).ok()); }

TEST(ValidateLayout, RefusesALayoutWithoutTensors) {
  EXPECT_EQ(ValidateLayout(proto::Layout()).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ValidateLayout, NamesTheTensorOfAGapAndOfAnOverlap) {
  proto::Layout layout = TwoLayers();
  layout.mutable_segments(1)->set_offset(301);
  EXPECT_EQ(ValidateLayout(layout).message(),
            "tensor \"fc2.bias\": starts at element 301, expected 300 (gap)");
  layout.mutable_segments(1)->set_offset(299);
  EXPECT_EQ(ValidateLayout(layout).message(),
            "tensor \"fc2.bias\": starts at element 299, expected 300 (overlap)");
}

TEST(ValidateLayout, RefusesShapesThatAreEmptyOrOverflow) {
  proto::Layout layout = TwoLayers();
  layout.mutable_segments(0)->set_shape(0, 0);
  EXPECT_THAT(std::string(ValidateLayout(layout).message()), HasSubstr("\"fc2.weight\""));
  layout = TwoLayers();
  layout.mutable_segments(0)->set_shape(0, 1ULL << 63);
  EXPECT_THAT(std::string(ValidateLayout(layout).message()), HasSubstr("\"fc2.weight\""));
}

TEST(ValidateLayout, RefusesASumThatOverflows) {
  proto::Layout layout;
  AddSegment("a", {1ULL << 63}, 1, 1, &layout);
  AddSegment("b", {1ULL << 63}, 1, 1, &layout);
  EXPECT_THAT(std::string(ValidateLayout(layout).message()), HasSubstr("\"b\": too many"));
}

TEST(ValidateLayout, RefusesAnEndThatIsNotTheNumberOfElements) {
  proto::Layout layout = TwoLayers();
  layout.set_elements(941);
  EXPECT_EQ(ValidateLayout(layout).message(),
            "tensor \"fc1.bias\": the last one ends at element 940, the layout at 941");
}

TEST(ValidateLayout, RefusesMultipliersThatAreNegativeOrNotFinite) {
  proto::Layout layout = TwoLayers();
  layout.mutable_segments(2)->set_lr_multiplier(-1);
  EXPECT_THAT(std::string(ValidateLayout(layout).message()), HasSubstr("\"fc1.weight\""));
  layout = TwoLayers();
  layout.mutable_segments(2)->set_decay_multiplier(NAN);
  EXPECT_THAT(std::string(ValidateLayout(layout).message()), HasSubstr("\"fc1.weight\""));
}

TEST(OptimizerRuns, CoverEachChunkExactlyWithTheMultipliersOfItsTensors) {
  const proto::Layout layout = TwoLayers();
  for (uint32_t chunk_elements : {1u, 7u, 64u, 300u, 310u, 940u, 4096u}) {
    const ChunkMap map(layout.elements(), chunk_elements);
    for (uint32_t c = 0; c < map.chunks(); ++c) {
      size_t at = 0;
      for (const OptimizerRun& run : OptimizerRuns(layout, map, ChunkId(c))) {
        ASSERT_EQ(run.offset, at);
        ASSERT_GT(run.count, 0);
        for (size_t i = 0; i < run.count; ++i) {
          const uint64_t element = map.OffsetOf(ChunkId(c)) + at + i;
          const bool bias = (element >= 300 && element < 310) || element >= 910;
          ASSERT_EQ(run.decay_multiplier, bias ? 0 : 1) << element;
        }
        at += run.count;
      }
      ASSERT_EQ(at, map.ElementsOf(ChunkId(c)));
    }
  }
}

TEST(OptimizerRuns, JoinsNeighboursWithTheSameMultipliers) {
  proto::Layout layout;
  AddSegment("a", {5}, 1, 1, &layout);
  AddSegment("b", {5}, 1, 1, &layout);
  AddSegment("c", {5}, 2, 1, &layout);
  const std::vector<OptimizerRun> runs = OptimizerRuns(layout, ChunkMap(15, 15), ChunkId(0));
  ASSERT_EQ(runs.size(), 2);
  EXPECT_EQ(runs[0].count, 10);
  EXPECT_EQ(runs[1].offset, 10);
  EXPECT_EQ(runs[1].lr_multiplier, 2);
}

}  // namespace
}  // namespace strata

#include "server/shard/cut_collector.h"

#include <vector>

#include "common/image/image_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using testing::HasSubstr;

std::vector<ChunkImage> At(std::vector<uint64_t> clocks) {
  std::vector<ChunkImage> images;
  for (uint64_t clock : clocks) {
    images.push_back({.clock = clock, .weights = {.weights = FloatBytes({1, 2})}});
  }
  return images;
}

TEST(CutCollector, GivesACutOnceAllChunksHaveComeToItsClock) {
  CutCollector collector(JobId(3), ShardId(1), {512, 0});
  collector.Add(0, At({10}));
  EXPECT_TRUE(collector.Take().empty());
  EXPECT_EQ(collector.bytes(), 8);
  collector.Add(1, At({10}));
  const std::vector<ShardCut> cuts = collector.Take();
  ASSERT_EQ(cuts.size(), 1);
  EXPECT_EQ(cuts[0].job, JobId(3));
  EXPECT_EQ(cuts[0].shard, ShardId(1));
  EXPECT_EQ(cuts[0].clock, 10);
  ASSERT_EQ(cuts[0].images.size(), 2);
  EXPECT_EQ(cuts[0].images[0].begin, 0);
  EXPECT_EQ(cuts[0].images[1].begin, 512);
  EXPECT_EQ(cuts[0].problem, "");
  EXPECT_EQ(collector.bytes(), 0);
  EXPECT_TRUE(collector.Take().empty());
}

TEST(CutCollector, AChunkMayBeSeveralClocksAhead) {
  CutCollector collector(JobId(3), ShardId(0), {0, 512});
  collector.Add(0, At({10, 20}));
  collector.Add(1, At({10}));
  EXPECT_EQ(collector.Take().size(), 1);
  collector.Add(1, At({20}));
  ASSERT_EQ(collector.Take().size(), 1);
}

TEST(CutCollector, HoldsTwoCutsAtMostAndSaysSoOfTheNext) {
  CutCollector collector(JobId(3), ShardId(0), {0, 512});
  for (size_t chunk : {0, 1}) collector.Add(chunk, At({10, 20}));
  ASSERT_EQ(collector.Take().size(), 2);
  collector.Add(0, At({30}));
  const std::vector<ShardCut> refused = collector.Take();
  ASSERT_EQ(refused.size(), 1);
  EXPECT_EQ(refused[0].clock, 30);
  EXPECT_TRUE(refused[0].images.empty());
  EXPECT_THAT(refused[0].problem, HasSubstr("checkpoint of step 10 is not written yet"));
  collector.LetGo(10);
  // The other chunk of that clock comes too late to make it whole.
  collector.Add(1, At({30}));
  EXPECT_TRUE(collector.Take().empty());
  EXPECT_EQ(collector.bytes(), 0);
  for (size_t chunk : {0, 1}) collector.Add(chunk, At({40}));
  ASSERT_EQ(collector.Take().size(), 1);
}

TEST(CutCollector, AShardOfOneChunkSkipsAndGoesOn) {
  CutCollector collector(JobId(3), ShardId(0), {0});
  collector.Add(0, At({1, 2, 3, 4}));
  const std::vector<ShardCut> cuts = collector.Take();
  ASSERT_EQ(cuts.size(), 4);
  EXPECT_EQ(cuts[1].problem, "");
  EXPECT_NE(cuts[2].problem, "");
  EXPECT_NE(cuts[3].problem, "");
  collector.LetGo(1);
  collector.Add(0, At({5}));
  EXPECT_EQ(collector.Take()[0].problem, "");
}

}  // namespace
}  // namespace strata::server

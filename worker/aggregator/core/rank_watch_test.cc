#include "worker/aggregator/core/rank_watch.h"

#include <gtest/gtest.h>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(RankWatch, CountsFromTheLookThatFoundARankFurther) {
  RankWatch watch(RankId(6), 2, kStart);
  const RankWatch::Progress progress = {.steps = 57, .published = 12};
  proto::RankActivity seen = watch.Look(1, progress, 61, kStart + absl::Seconds(2));
  EXPECT_EQ(seen.rank(), 7u);
  EXPECT_EQ(seen.clock(), 57u);
  EXPECT_EQ(seen.published(), 12u);
  EXPECT_EQ(seen.chunks(), 61u);
  EXPECT_FALSE(seen.waiting());
  EXPECT_EQ(seen.idle_ms(), 0);
  seen = watch.Look(1, progress, 61, kStart + absl::Seconds(5));
  EXPECT_EQ(seen.idle_ms(), 3000);
  seen = watch.Look(1, {.steps = 57, .published = 13}, 61, kStart + absl::Seconds(6));
  EXPECT_EQ(seen.idle_ms(), 0);
  // The other rank has made no progress at all.
  EXPECT_EQ(watch.Look(0, {}, 61, kStart + absl::Seconds(6)).idle_ms(), 6000);
}

TEST(RankWatch, CountsAnewOnceARankNoLongerWaits) {
  RankWatch watch(RankId(0), 1, kStart);
  watch.Look(0, {.steps = 3, .waiting = true}, 4, kStart + absl::Seconds(1));
  EXPECT_EQ(watch.Look(0, {.steps = 3, .waiting = true}, 4, kStart + absl::Seconds(9)).idle_ms(),
            8000);
  EXPECT_EQ(watch.Look(0, {.steps = 3}, 4, kStart + absl::Seconds(10)).idle_ms(), 0);
  EXPECT_EQ(watch.Look(0, {.steps = 3}, 4, kStart + absl::Seconds(12)).idle_ms(), 2000);
}

TEST(RankWatch, FindsARanksPlaceInTheNodesMemory) {
  constexpr uint32_t kChunks = 4;
  auto memory = NodeMemory::Create(kChunks * kChunkElementsMin, 2);
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (uint32_t c = 0; c < kChunks; ++c) (*memory)->landed(c).store(3);
  EXPECT_EQ(LeastLanded(**memory, kChunks), 3u);
  // Rank 0 is in step 2, rank 1 has published all of it.
  (*memory)->rank(0).complete.store(2);
  (*memory)->rank(0).published.store(2 * kChunks + 1);
  (*memory)->rank(1).complete.store(3);
  (*memory)->rank(1).published.store(3 * kChunks);
  EXPECT_EQ(MeasureProgress(**memory, 0, kChunks, 3),
            (RankWatch::Progress{.steps = 2, .published = 1}));
  EXPECT_EQ(MeasureProgress(**memory, 1, kChunks, 3),
            (RankWatch::Progress{.steps = 3, .waiting = true}));
  // The weights of one chunk are late.
  (*memory)->landed(2).store(2);
  EXPECT_EQ(LeastLanded(**memory, kChunks), 2u);
  EXPECT_TRUE(MeasureProgress(**memory, 0, kChunks, 2).waiting);
}

TEST(RankWatch, TakesNonsenseInTheNodesMemoryAsItIs) {
  auto memory = NodeMemory::Create(kChunkElementsMin, 1);
  ASSERT_TRUE(memory.ok()) << memory.status();
  (*memory)->rank(0).complete.store(7);
  EXPECT_EQ(MeasureProgress(**memory, 0, 1, 8).published, 0u);
  (*memory)->rank(0).published.store(UINT64_MAX);
  EXPECT_EQ(MeasureProgress(**memory, 0, 1, 8).published, 1u);
}

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(BusyTime, AddsUpWhatLiesBetweenBeginAndEnd) {
  BusyTime busy;
  EXPECT_EQ(busy.Total(At(5)), absl::ZeroDuration());
  busy.Set(true, At(10));
  busy.Set(true, At(11));
  EXPECT_EQ(busy.Total(At(13)), absl::Seconds(3));
  busy.Set(false, At(14));
  busy.Set(false, At(15));
  EXPECT_EQ(busy.Total(At(20)), absl::Seconds(4));
  busy.Set(true, At(20));
  EXPECT_EQ(busy.Total(At(21)), absl::Seconds(5));
}

}  // namespace
}  // namespace strata::worker

#include "training/data/batch_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "training/data/sampler.h"

namespace strata::worker {
namespace {

// 50 samples of one pixel that is the sample's index.
Dataset Numbered() {
  Dataset data;
  data.channels = data.height = data.width = 1;
  data.classes = 50;
  for (int i = 0; i < 50; ++i) {
    data.pixels.push_back(static_cast<uint8_t>(i));
    data.labels.push_back(static_cast<uint16_t>(i));
  }
  return data;
}

TEST(Sampler, EpochOrderIsAPermutationThatSeedAndEpochDecide) {
  const auto order = EpochOrder(1000, 1, 0);
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(sorted, all);
  EXPECT_NE(order, all);
  EXPECT_EQ(order, EpochOrder(1000, 1, 0));
  EXPECT_NE(order, EpochOrder(1000, 1, 1));
  EXPECT_NE(order, EpochOrder(1000, 2, 0));
}

TEST(Sampler, RanksTogetherSeeEachSampleOnceInTheOrderOfOneRankWithTheWholeBatch) {
  const auto order = EpochOrder(50, 7, 3);
  EXPECT_EQ(StepsPerEpoch(50, 3, 4), 4u);
  std::set<uint32_t> seen;
  for (uint64_t step = 0; step < 4; ++step) {
    std::vector<uint32_t> joined;
    for (uint64_t rank = 0; rank < 3; ++rank) {
      for (uint32_t index : RankSlice(order, step, rank, 3, 4)) joined.push_back(index);
    }
    EXPECT_EQ(absl::MakeConstSpan(joined), RankSlice(order, step, 0, 1, 12));
    seen.insert(joined.begin(), joined.end());
  }
  EXPECT_EQ(seen.size(), 48u);
}

TEST(BatchSource, DeliversTheSamplersSlicesOverSeveralEpochs) {
  const Dataset data = Numbered();
  BatchSource source(&data, {}, {.seed = 5, .rank = 1, .ranks = 2, .batch = 8, .total_steps = 8});
  source.Start();
  for (uint64_t step = 0; step < 8; ++step) {
    const auto order = EpochOrder(50, 5, step / 3);
    const auto slice = RankSlice(order, step % 3, 1, 2, 8);
    const Batch& batch = source.Next();
    ASSERT_EQ(batch.labels.size(), 8u);
    for (size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(batch.labels[i], slice[i]);
      EXPECT_FLOAT_EQ(batch.images[i], static_cast<float>(slice[i]) / 255);
    }
  }
}

TEST(BatchSource, BeginsWithTheBatchOfAnyStep) {
  const Dataset data = Numbered();
  BatchSource all(&data, {}, {.seed = 5, .rank = 1, .ranks = 2, .batch = 8, .total_steps = 8});
  all.Start();
  std::vector<std::vector<uint16_t>> labels;
  for (uint64_t step = 0; step < 8; ++step) labels.push_back(all.Next().labels);
  for (uint64_t first = 1; first < 8; ++first) {
    BatchSource rest(
        &data, {},
        {.seed = 5, .rank = 1, .ranks = 2, .batch = 8, .first_step = first, .total_steps = 8});
    rest.Start();
    for (uint64_t step = first; step < 8; ++step) EXPECT_EQ(rest.Next().labels, labels[step]);
  }
  BatchSource none(&data, {}, {.batch = 8, .first_step = 9, .total_steps = 8});
  none.Start();
}

TEST(BatchSource, StopsWhileBatchesAreLeft) {
  const Dataset data = Numbered();
  BatchSource never_started(&data, {}, {.batch = 8, .total_steps = 8});
  BatchSource source(&data, {}, {.batch = 8, .total_steps = 1u << 30});
  source.Start();
  source.Next();
}

}  // namespace
}  // namespace strata::worker

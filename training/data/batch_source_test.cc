#include "training/data/batch_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace strata::training {
namespace {

// 50 samples of one pixel, whose value is the sample's index.
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

TEST(Sampler, BatchesCountOnFromStepToStepAndFromEpochToEpoch) {
  const auto order = EpochOrder(50, 7, 3);
  for (uint64_t number = 0; number < 30; ++number) {
    const BatchPlace place = PlaceOfBatch(number, 12);  // 4 steps of 3 ranks
    EXPECT_EQ(place.epoch, number / 12);
    EXPECT_EQ(BatchSlice(order, place.index, 4),
              RankSlice(order, number / 3 % 4, number % 3, 3, 4));
  }
}

// Steps lie across the ends of epochs, too.
TEST(Sampler, EachSampleIsUsedOnceAnEpochWhateverRanksComeAndGo) {
  std::mt19937 random(1);
  int across = 0;
  for (int job = 0; job < 200; ++job) {
    SCOPED_TRACE(job);
    const uint64_t batch = 1 + random() % 5;
    const uint64_t samples = 24 * batch + random() % 40;
    const uint64_t first_ranks = 1 + random() % 8;
    const uint64_t per_epoch = StepsPerEpoch(samples, first_ranks, batch) * first_ranks;
    std::vector<std::multiset<uint32_t>> used(4);
    uint64_t rank_steps = 0, ranks = 0;
    while (rank_steps < used.size() * per_epoch) {
      if (ranks == 0 || random() % 4 == 0) ranks = 1 + random() % 12;
      for (uint64_t rank = 0; rank < ranks; ++rank) {
        const BatchPlace place = PlaceOfBatch(rank_steps + rank, per_epoch);
        if (place.epoch >= used.size()) continue;  // of the step that the job ends with
        across += rank > 0 && place.index == 0;
        const auto order = EpochOrder(samples, 9, place.epoch);
        for (const uint32_t sample : BatchSlice(order, place.index, batch)) {
          used[place.epoch].insert(sample);
        }
      }
      rank_steps += ranks;
    }
    for (const std::multiset<uint32_t>& epoch : used) {
      ASSERT_EQ(epoch.size(), per_epoch * batch);
      ASSERT_EQ(std::set<uint32_t>(epoch.begin(), epoch.end()).size(), epoch.size());
    }
  }
  EXPECT_GT(across, 100);
}

// 6 batches of 8 in an epoch.
constexpr BatchSource::Options kSixBatches = {.seed = 5, .batch = 8, .batches_per_epoch = 6};

void ExpectBatch(const Batch& batch, uint64_t number) {
  const BatchPlace place = PlaceOfBatch(number, 6);
  const auto order = EpochOrder(50, 5, place.epoch);
  const auto slice = BatchSlice(order, place.index, 8);
  ASSERT_EQ(batch.labels.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(batch.labels[i], slice[i]);
    EXPECT_FLOAT_EQ(batch.images[i], static_cast<float>(slice[i]) / 255);
  }
}

TEST(BatchSource, DeliversTheBatchesOfARankOverSeveralEpochs) {
  const Dataset data = Numbered();
  BatchSource source(&data, {}, kSixBatches);
  source.Start();
  for (uint64_t step = 0; step < 8; ++step) source.Expect(2 * step + 1);
  for (uint64_t step = 0; step < 8; ++step) ExpectBatch(source.Next(), 2 * step + 1);
}

TEST(BatchSource, BeginsWithAnyBatchAndLeavesOutAnyEpoch) {
  const Dataset data = Numbered();
  BatchSource source(&data, {}, kSixBatches);
  source.Start();
  for (const uint64_t number : {9, 10, 11, 12, 26, 27, 59}) {
    source.Expect(number);
    ExpectBatch(source.Next(), number);
  }
}

TEST(BatchSource, ABatchStaysWhileTheNextOneIsPrepared) {
  const Dataset data = Numbered();
  BatchSource source(&data, {}, kSixBatches);
  source.Start();
  source.Expect(0);
  for (uint64_t number = 0; number < 50; ++number) {
    const Batch& batch = source.Next();
    source.Expect(number + 1);
    ExpectBatch(batch, number);
  }
}

TEST(BatchSource, StopsWhileBatchesAreLeft) {
  const Dataset data = Numbered();
  BatchSource never_started(&data, {}, kSixBatches);
  BatchSource waits(&data, {}, kSixBatches);
  waits.Start();
  BatchSource source(&data, {}, kSixBatches);
  source.Start();
  for (uint64_t number = 0; number < 100; ++number) source.Expect(number);
  source.Next();
}

}  // namespace
}  // namespace strata::training

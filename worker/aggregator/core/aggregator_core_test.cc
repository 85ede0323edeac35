#include "worker/aggregator/core/aggregator_core.h"

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

TEST(AggregatorCoreTest, AChunkIsSubmittedOnceWhenEveryRankHasPublishedTheDueClock) {
  AggregatorCore core(RankId(4), 2, 3);
  EXPECT_FALSE(*core.OnReady(ChunkId(1), {1, 0}));
  EXPECT_TRUE(core.collecting(ChunkId(1)));
  EXPECT_TRUE(*core.OnReady(ChunkId(1), {1, 1}));
  EXPECT_FALSE(core.collecting(ChunkId(1)));
  EXPECT_TRUE(core.collecting(ChunkId(0)));
  EXPECT_EQ(core.OnSummed(ChunkId(1), {1, 1}), 1u);
  EXPECT_FALSE(core.collecting(ChunkId(1)));
  EXPECT_EQ(core.under_way(), 1u);
  EXPECT_EQ(core.OnLanded(ChunkId(1), 0), 2u);
  EXPECT_EQ(core.under_way(), 0u);
  EXPECT_TRUE(core.collecting(ChunkId(1)));
  EXPECT_FALSE(*core.OnReady(ChunkId(1), {1, 1}));
  EXPECT_FALSE(*core.OnReady(ChunkId(1), {1, 2}));
  EXPECT_TRUE(*core.OnReady(ChunkId(1), {2, 2}));
}

TEST(AggregatorCoreTest, AJobThatGoesOnWaitsForTheGradientsOfItsFirstStep) {
  AggregatorCore core(RankId(4), 2, 3);
  core.BeginAt(6);
  EXPECT_EQ(core.clock(ChunkId(2)), 6u);
  EXPECT_FALSE(*core.OnReady(ChunkId(2), {6, 7}));
  EXPECT_TRUE(*core.OnReady(ChunkId(2), {7, 7}));
  EXPECT_EQ(core.OnSummed(ChunkId(2), {6, 6}), 7u);
  EXPECT_EQ(core.OnLanded(ChunkId(2), 6), 8u);
  ASSERT_TRUE(core.OnLeave(0, 6).ok());
  EXPECT_EQ(core.OnPublished({18, 19}).message(),
            "rank 4 has finished after 6 steps, but rank 5 goes on");
}

TEST(AggregatorCoreTest, CountsPushesMadeBeforeEveryRankHadPublishedItsLastChunk) {
  AggregatorCore core(RankId(0), 2, 2);
  ASSERT_TRUE(*core.OnReady(ChunkId(0), {1, 1}));
  core.OnSummed(ChunkId(0), {0, 1});
  EXPECT_EQ(core.pushes_during_backward(), 1u);
  ASSERT_TRUE(*core.OnReady(ChunkId(1), {1, 1}));
  core.OnSummed(ChunkId(1), {1, 1});
  EXPECT_EQ(core.pushes_during_backward(), 1u);
}

TEST(AggregatorCoreTest, ARankThatGoesOnWhereAnotherHasLeftIsNamed) {
  AggregatorCore core(RankId(4), 2, 1);
  ASSERT_TRUE(core.OnLeave(1, 0).ok());
  EXPECT_EQ(core.steps(), std::nullopt);
  absl::Status status = core.OnReady(ChunkId(0), {1, 0}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "rank 5 has finished after 0 steps, but rank 4 goes on");
}

TEST(AggregatorCoreTest, SoIsOneThatHasComputedMoreThanCanBeAddedUp) {
  AggregatorCore core(RankId(4), 3, 2);
  ASSERT_TRUE(core.OnPublished({9, 9, 9}).ok());
  ASSERT_TRUE(core.OnLeave(2, 5).ok());
  ASSERT_TRUE(core.OnPublished({9, 10, 10}).ok());
  const absl::Status status = core.OnPublished({9, 11, 10});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "rank 6 has finished after 5 steps, but rank 5 goes on");
}

TEST(AggregatorCoreTest, AllRanksMustLeaveAfterTheSameNumberOfSteps) {
  AggregatorCore core(RankId(0), 3, 1);
  ASSERT_TRUE(core.OnLeave(2, 7).ok());
  ASSERT_TRUE(core.OnLeave(0, 7).ok());
  absl::Status status = core.OnLeave(1, 8);
  EXPECT_EQ(status.message(), "rank 0 has finished after 7 steps, rank 1 after 8");
  ASSERT_TRUE(core.OnLeave(1, 7).ok());
  EXPECT_EQ(core.steps(), 7u);
}

TEST(AggregatorCoreTest, RanksThatSayOtherRatesAreNamedWithTheStep) {
  const AggregatorCore core(RankId(4), /*local_ranks=*/3, /*chunks=*/1);
  EXPECT_TRUE(core.OnRates(7, {0.25f, 0.25f, 0.25f}).ok());
  const absl::Status status = core.OnRates(7, {0.25f, 0.25f, 0.1f});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "rank 4 says learning rate 0.25 at step 7, rank 6 0.100000001");
}

proto::Layout Layout(std::vector<std::pair<std::string, uint64_t>> tensors) {
  proto::Layout layout;
  for (const auto& [name, count] : tensors) {
    proto::Segment* segment = layout.add_segments();
    segment->set_name(name);
    segment->add_shape(count);
    segment->set_lr_multiplier(1);
  }
  return layout;
}

TEST(AggregatorCoreTest, LayoutsThatDifferAreToldApartByRankAndTensor) {
  const proto::Layout a = Layout({{"w", 4}, {"b", 2}});
  EXPECT_TRUE(CheckSameLayout(RankId(2), a, RankId(3), a).ok());
  absl::Status shape = CheckSameLayout(RankId(2), a, RankId(3), Layout({{"w", 5}, {"b", 2}}));
  EXPECT_EQ(shape.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(shape.message(),
            "rank 3 registered other tensors than rank 2: \"w\" [5] (lr x1, decay x0) instead of "
            "\"w\" [4] (lr x1, decay x0)");
  absl::Status fewer = CheckSameLayout(RankId(2), a, RankId(3), Layout({{"w", 4}}));
  EXPECT_EQ(
      fewer.message(),
      "rank 3 registered other tensors than rank 2: 1 of them instead of 2: \"b\" [2] (lr x1, "
      "decay x0) is missing");
}

}  // namespace
}  // namespace strata::worker

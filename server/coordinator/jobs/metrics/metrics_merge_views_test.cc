// Ranks that join a job while it trains, and leave it.
#include "gtest/gtest.h"
#include "server/coordinator/jobs/metrics/metrics_merge_fixture.h"

namespace strata::server {
namespace {

// Ranks 0 and 1 begin; 2 may join.
MetricsMerge ThreePlaces() {
  MetricsMerge merge(3, 5, kSamplesPerEpoch, kTotalSteps);
  merge.Leave(2, 1, 0);
  return merge;
}

TEST(MetricsMergeViews, NobodyWaitsForARankThatIsNotThere) {
  MetricsMerge merge = ThreePlaces();
  merge.Add(Report(0, 0, 10), 1);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 0, 10), 1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 200);
  EXPECT_EQ(merge.GetProgress().step(), 10u);
  EXPECT_GE(merge.GetProgress().eta_s(), 0);
}

TEST(MetricsMergeViews, ARankThatJoinsIsWaitedForFromItsFirstStepOn) {
  MetricsMerge merge = ThreePlaces();
  merge.Join(2, 1, 15);
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 10), 1);
  merge.Add(Report(0, 10, 20), 2);
  EXPECT_TRUE(merge.Add(Report(1, 10, 20), 2).empty());
  EXPECT_EQ(merge.GetProgress().step(), 15u);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(2, 15, 20), 2);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 450) << "it made no step before";
  EXPECT_EQ(merge.GetProgress().samples(), 450);
}

TEST(MetricsMergeViews, ARankThatLeavesIsWaitedForUpToItsLastStep) {
  MetricsMerge merge = ThreePlaces();
  merge.Leave(1, 1, 15);
  merge.Add(Report(0, 0, 10), 1);
  EXPECT_EQ(merge.Add(Report(1, 0, 10), 1).size(), 1);
  merge.Add(Report(0, 10, 20), 2);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 10, 15), 2);
  ASSERT_EQ(records.size(), 2) << "its last steps, and the others'";
  EXPECT_EQ(records[1].samples(), 350);
  EXPECT_EQ(merge.GetProgress().step(), 20u) << "it is not the slowest any more";
  EXPECT_EQ(merge.GetProgress().samples(), 350);
  EXPECT_EQ(merge.Add(Report(0, 20, 30), 3).size(), 1);
}

TEST(MetricsMergeViews, ARankThatDiesIsNotWaitedForAndWhatItHasSaidCounts) {
  MetricsMerge merge = ThreePlaces();
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 10), 1);
  EXPECT_TRUE(merge.Add(Report(1, 10, 20), 2).empty());
  merge.Drop(0, 1);
  EXPECT_EQ(merge.GetProgress().step(), 20u) << "it is not the slowest any more";
  EXPECT_EQ(merge.GetProgress().samples(), 300);
  EXPECT_EQ(merge.Add(Report(1, 20, 30), 3).size(), 2);
}

TEST(MetricsMergeViews, ARankMayComeBack) {
  MetricsMerge merge = ThreePlaces();
  merge.Leave(1, 1, 10);
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 10), 1);
  EXPECT_EQ(merge.Add(Report(0, 10, 20), 2).size(), 1);
  merge.Join(1, 1, 20);
  merge.BeginAnew(1, 1);
  EXPECT_GE(merge.GetProgress().bytes_per_step(), 0) << "of steps that it has reported since";
  merge.Add(Report(0, 20, 30), 3);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 20, 30), 3);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 500);
}

// Three ranks made 50 steps, and one goes on.
TEST(MetricsMergeViews, SamplesBeforeACheckpointAreThoseOfTheRanksOfThatTime) {
  MetricsMerge merge(3, 5, kSamplesPerEpoch, kTotalSteps, 50);
  merge.SetEarlier(150);
  merge.Leave(1, 2, 0);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(0, 50, 60), 1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 1600);
  EXPECT_EQ(merge.GetProgress().samples(), 1600);
  EXPECT_EQ(merge.GetProgress().step(), 60u);
  merge.Join(1, 1, 70);
  merge.Add(Report(0, 60, 80), 2);
  EXPECT_EQ(merge.Add(Report(1, 70, 80), 2).size(), 1);
  EXPECT_EQ(merge.GetProgress().samples(), 1900);
}

// It measures the weights that its first step begins with.
TEST(MetricsMergeViews, TheFirstRankOfTheNextStepMeasures) {
  MetricsMerge merge = ThreePlaces();
  merge.Leave(0, 1, 10);
  merge.Leave(1, 1, 10);
  merge.Join(2, 1, 10);
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 10), 1);
  proto::RankReport measured;
  measured.set_rank(1);
  measured.set_first_step(10);
  measured.set_end_step(10);
  measured.set_test_accuracy(0.5);
  EXPECT_TRUE(merge.Add(measured, 2).empty()) << "neither of the step before nor of this one";
  measured.set_rank(2);
  ASSERT_EQ(merge.Add(measured, 2).size(), 1);
  EXPECT_DOUBLE_EQ(merge.GetProgress().test_accuracy(), 0.5);
}

TEST(MetricsMergeViews, TheFirstRankThatIsThereMeasures) {
  MetricsMerge merge = ThreePlaces();
  merge.Leave(0, 1, 10);
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 10), 1);
  for (uint64_t step = 10; step < kTotalSteps; step += 10) {
    merge.Add(Report(1, step, step + 10), 1);
  }
  proto::RankReport final;
  final.set_rank(1);
  final.set_first_step(kTotalSteps);
  final.set_end_step(kTotalSteps);
  final.set_final(true);
  final.set_test_accuracy(0.9);
  const std::vector<proto::MetricsRecord> records = merge.Add(final, 9);
  ASSERT_EQ(records.size(), 1);
  EXPECT_TRUE(records[0].final());
  EXPECT_DOUBLE_EQ(records[0].test_accuracy(), 0.9);
}

}  // namespace
}  // namespace strata::server

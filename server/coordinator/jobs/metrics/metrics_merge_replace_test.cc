// Ranks whose processes are begun anew while the job goes on.
#include "gtest/gtest.h"
#include "server/coordinator/jobs/metrics/metrics_merge.h"

namespace strata::server {
namespace {

constexpr uint64_t kSamplesPerEpoch = 1000;
constexpr uint64_t kTotalSteps = 100;

proto::RankReport Report(uint32_t rank, uint64_t first, uint64_t end) {
  proto::RankReport report;
  report.set_rank(rank);
  report.set_first_step(first);
  report.set_end_step(end);
  report.set_samples((end - first) * 10);
  report.set_loss_sum((end - first) * 10 * 2.0);
  report.set_wall_s(5);
  report.set_wait_s(1);
  report.set_lr(0.1);
  return report;
}

MetricsMerge TwoRanks() { return MetricsMerge(2, 5, kSamplesPerEpoch, kTotalSteps); }

// Rank 1 has reported until step 20 and was then made again from step 15 on.
TEST(MetricsMergeReplace, StepsThatARankMakesAgainCountOnce) {
  MetricsMerge merge = TwoRanks();
  for (const uint64_t first : {0, 10}) {
    for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, first, first + 10), 1);
  }
  merge.BeginAnew(1, 1);
  EXPECT_TRUE(merge.Add(Report(1, 15, 20), 2).empty());
  EXPECT_EQ(merge.GetProgress().samples(), 400);
  merge.Add(Report(0, 20, 30), 2);
  proto::RankReport again = Report(1, 15, 30);
  again.set_loss_sum(150 * 5.0);
  const std::vector<proto::MetricsRecord> records = merge.Add(again, 2);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 600);
  EXPECT_DOUBLE_EQ(records[0].loss(), (100 * 2.0 + 100 * 5.0) / 200);
  EXPECT_EQ(merge.GetProgress().samples(), 600);
}

TEST(MetricsMergeReplace, StepsThatNobodyReportsAnyMoreHaveAsManySamplesAsLaterOnes) {
  MetricsMerge merge = TwoRanks();
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 10), 1);
  merge.BeginAnew(1, 1);  // from step 18, which it had not reported
  merge.Add(Report(0, 10, 20), 1);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 18, 20), 1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 400);
  EXPECT_EQ(merge.GetProgress().samples(), 400);
}

// Rank 1 dies when it has made all its steps, of which the last window is reported at the very end.
TEST(MetricsMergeReplace, StepsThatWereMadeBeforeARankBeganAnewCountWhereItMakesNoMore) {
  MetricsMerge merge = TwoRanks();
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 90), 1);
  merge.BeginAnew(1, 1);
  EXPECT_TRUE(merge.Add(Report(1, 100, 100), 2).empty());
  EXPECT_EQ(merge.GetProgress().samples(), 900u + 1000);
  EXPECT_EQ(merge.GetProgress().step(), 90u);
  EXPECT_EQ(merge.SlowestStep(1, 1), 100u);
  EXPECT_EQ(merge.Add(Report(0, 90, 96), 2).at(0).samples(), 2u * 960) << "those until there";
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(0, 96, 100), 2);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].samples(), 2000u);
  EXPECT_DOUBLE_EQ(records[0].loss(), 2.0) << "of steps that were reported";
  EXPECT_EQ(merge.GetProgress().step(), kTotalSteps);
  EXPECT_EQ(merge.GetProgress().samples(), 2000u);
  EXPECT_DOUBLE_EQ(merge.GetProgress().eta_s(), 0);
}

TEST(MetricsMergeReplace, ARankThatSaysWhereItGoesOnReportsTheStepsAfter) {
  MetricsMerge merge = TwoRanks();
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 10), 1);
  merge.BeginAnew(1, 1);
  merge.Add(Report(1, 18, 18), 1);
  EXPECT_TRUE(merge.Add(Report(1, 10, 15), 1).empty()) << "of steps that it has counted";
  merge.BeginAnew(1, 1);
  merge.Add(Report(1, 18, 18), 1);
  EXPECT_EQ(merge.GetProgress().samples(), 100u + 180);
  merge.Add(Report(0, 10, 20), 1);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 18, 20), 1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 400u);
  EXPECT_EQ(merge.GetProgress().samples(), 400u);
}

TEST(MetricsMergeReplace, CountersOfNewProcessesAddToThoseBefore) {
  MetricsMerge merge(1, 5, kSamplesPerEpoch, kTotalSteps);
  const auto add = [&](uint64_t first, uint64_t bytes, uint64_t late) {
    proto::RankReport report = Report(0, first, first + 10);
    report.mutable_node()->set_bytes_pushed(bytes);
    report.mutable_node()->add_staleness(0);
    report.mutable_node()->add_staleness(late);
    return merge.Add(report, 1).at(0);
  };
  EXPECT_EQ(add(0, 1000, 1).bytes_pushed(), 1000);
  EXPECT_EQ(add(10, 2000, 2).bytes_pushed(), 1000);
  merge.BeginAnew(0, 1);
  EXPECT_EQ(add(20, 1200, 3).bytes_pushed(), 1200);
  merge.BeginAnew(0, 1);
  const proto::MetricsRecord record = add(30, 1500, 4);
  EXPECT_EQ(record.bytes_pushed(), 1500);
  EXPECT_EQ(record.staleness(1), 4);
  EXPECT_DOUBLE_EQ(merge.GetProgress().bytes_per_step(), (2000 + 1200 + 1500) / 40.0);
}

}  // namespace
}  // namespace strata::server

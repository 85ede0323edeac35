#include "server/coordinator/jobs/metrics/metrics_merge.h"

#include "gtest/gtest.h"

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

TEST(MetricsMerge, ARecordWaitsForAllRanks) {
  MetricsMerge merge = TwoRanks();
  EXPECT_TRUE(merge.Add(Report(0, 0, 10), 1).empty());
  proto::RankReport second = Report(1, 0, 10);
  second.set_loss_sum(100 * 4.0);
  second.set_wait_s(3);
  second.set_wall_s(10);
  const std::vector<proto::MetricsRecord> records = merge.Add(second, 7.5);
  ASSERT_EQ(records.size(), 1);
  const proto::MetricsRecord& record = records[0];
  EXPECT_EQ(record.step(), 10);
  EXPECT_EQ(record.samples(), 200);
  EXPECT_DOUBLE_EQ(record.epoch(), 0.2);
  EXPECT_DOUBLE_EQ(record.loss(), 3.0);
  EXPECT_DOUBLE_EQ(record.samples_per_s(), 100 / 5.0 + 100 / 10.0);
  EXPECT_DOUBLE_EQ(record.waiting_share(), 4.0 / 15);
  EXPECT_DOUBLE_EQ(record.elapsed_s(), 7.5);
  EXPECT_DOUBLE_EQ(record.lr(), 0.1);
  EXPECT_FALSE(record.has_test_accuracy());
}

TEST(MetricsMerge, WhatIsMeasuredLateIsARecordOfItsOwnWithoutSamples) {
  MetricsMerge merge = TwoRanks();
  merge.Add(Report(0, 0, 10), 1);
  merge.Add(Report(1, 0, 10), 1);
  proto::RankReport measured;
  measured.set_first_step(5);
  measured.set_end_step(5);
  measured.set_test_accuracy(0.75);
  measured.set_test_loss(0.5);
  measured.set_trained_s(2.5);
  const std::vector<proto::MetricsRecord> records = merge.Add(measured, 9);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].step(), 5);
  EXPECT_EQ(records[0].samples(), 0);
  EXPECT_EQ(records[0].test_accuracy(), 0.75);
  EXPECT_EQ(records[0].test_loss(), 0.5);
  EXPECT_EQ(records[0].elapsed_s(), 2.5);
  EXPECT_EQ(merge.GetProgress().test_accuracy(), 0.75);
  EXPECT_EQ(merge.GetProgress().samples(), 200);
  EXPECT_TRUE(merge.Add(measured, 9).empty());  // told again
  measured.set_rank(1);
  measured.set_first_step(6);
  measured.set_end_step(6);
  EXPECT_TRUE(merge.Add(measured, 9).empty());
}

TEST(MetricsMerge, ValuesOfTheFirstRankThatHasThemAreInTheRecordAndRank0sInTheProgress) {
  MetricsMerge merge = TwoRanks();
  proto::RankReport first = Report(0, 0, 10), second = Report(1, 0, 10);
  (*first.mutable_values())["perplexity"] = 12.5;
  (*second.mutable_values())["perplexity"] = 13.5;
  (*second.mutable_values())["bleu"] = 0.25;
  merge.Add(second, 1);
  const std::vector<proto::MetricsRecord> records = merge.Add(first, 1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].values().at("perplexity"), 12.5);
  EXPECT_EQ(records[0].values().at("bleu"), 0.25);
  EXPECT_EQ(merge.GetProgress().values().size(), 1);
  EXPECT_EQ(merge.GetProgress().values().at("perplexity"), 12.5);
}

TEST(MetricsMerge, ValuesWithoutStepsAreARecordOfTheirOwnOncePerNameAndStep) {
  MetricsMerge merge = TwoRanks();
  proto::RankReport measured;
  measured.set_first_step(5);
  measured.set_end_step(5);
  (*measured.mutable_values())["perplexity"] = 12.5;
  const std::vector<proto::MetricsRecord> records = merge.Add(measured, 9);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].step(), 5);
  EXPECT_FALSE(records[0].has_test_accuracy());
  EXPECT_EQ(records[0].values().at("perplexity"), 12.5);
  EXPECT_TRUE(merge.Add(measured, 9).empty()) << "told again";
  measured.mutable_values()->clear();
  measured.set_test_accuracy(0.5);
  EXPECT_EQ(merge.Add(measured, 9).size(), 1) << "another measurement at that step";
  EXPECT_EQ(merge.GetProgress().values().at("perplexity"), 12.5);
}

TEST(MetricsMerge, ProgressHasNoMoreThan32Values) {
  MetricsMerge merge = TwoRanks();
  for (uint64_t step = 1; step <= 40; ++step) {
    proto::RankReport measured;
    measured.set_first_step(step);
    measured.set_end_step(step);
    (*measured.mutable_values())["v" + std::to_string(step)] = 1;
    EXPECT_EQ(merge.Add(measured, 9).size(), 1);
  }
  EXPECT_EQ(merge.GetProgress().values().size(), 32);
}

TEST(MetricsMerge, ValuesOfTheFinalModelAreInItsRecord) {
  MetricsMerge merge = TwoRanks();
  proto::RankReport final;
  final.set_first_step(10);
  final.set_end_step(10);
  final.set_final(true);
  (*final.mutable_values())["perplexity"] = 2;
  merge.Add(final, 1);
  merge.Add(Report(0, 0, 10), 1);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 0, 10), 1);
  ASSERT_EQ(records.size(), 2);
  EXPECT_EQ(records[1].values().at("perplexity"), 2);
  EXPECT_EQ(merge.GetProgress().values().at("perplexity"), 2);
}

TEST(MetricsMerge, WhatIsHiddenIsTheExchangeInWhichNobodyWaited) {
  MetricsMerge merge = TwoRanks();
  EXPECT_FALSE(merge.hidden_share().has_value());
  const auto report = [](uint32_t rank, uint64_t end, double exchange_s, double exposed_s) {
    proto::RankReport one = Report(rank, end - 10, end);
    one.mutable_node()->set_exchange_s(exchange_s);
    one.mutable_node()->set_exposed_s(exposed_s);
    return one;
  };
  merge.Add(report(0, 10, 3, 1), 1);
  EXPECT_DOUBLE_EQ(merge.Add(report(1, 10, 5, 3), 1).at(0).hidden_share(), 0.5);
  merge.Add(report(0, 20, 7, 1), 2);
  EXPECT_DOUBLE_EQ(merge.Add(report(1, 20, 9, 5), 2).at(0).hidden_share(), 0.75);
  EXPECT_EQ(merge.hidden_share(), 0.75);
  // Waits outside of any exchange make it no less than nothing.
  merge.Add(report(0, 30, 8, 9), 3);
  EXPECT_DOUBLE_EQ(merge.Add(report(1, 30, 10, 5), 3).at(0).hidden_share(), 0.0);
  merge.Add(report(0, 40, 8, 9), 4);
  EXPECT_FALSE(merge.Add(report(1, 40, 10, 5), 4).at(0).has_hidden_share());
}

TEST(MetricsMerge, AReportThatComesTwiceCountsOnce) {
  MetricsMerge merge = TwoRanks();
  merge.Add(Report(0, 0, 10), 1);
  EXPECT_TRUE(merge.Add(Report(0, 0, 10), 1).empty());
  EXPECT_EQ(merge.Add(Report(1, 0, 10), 1).at(0).samples(), 200);
  EXPECT_TRUE(merge.Add(Report(1, 0, 10), 1).empty());
  EXPECT_EQ(merge.GetProgress().samples(), 200);
}

TEST(MetricsMerge, AFastRankMayRunAheadAndRecordsStayInOrder) {
  MetricsMerge merge = TwoRanks();
  for (uint64_t end = 10; end <= 30; end += 10) merge.Add(Report(0, end - 10, end), 1);
  EXPECT_EQ(merge.Add(Report(1, 0, 10), 1).at(0).step(), 10);
  // A window that one rank never reports is closed by that rank's later one.
  const auto records = merge.Add(Report(1, 20, 30), 1);
  ASSERT_EQ(records.size(), 2);
  EXPECT_EQ(records[0].step(), 20);
  EXPECT_EQ(records[0].samples(), 300);
  EXPECT_EQ(records[1].step(), 30);
  EXPECT_EQ(records[1].samples(), 500);
}

TEST(MetricsMerge, CountersAreSharesOfTheWindowSummedOverNodes) {
  MetricsMerge merge = TwoRanks();
  const auto with_counters = [](proto::RankReport report, uint64_t scale) {
    proto::NodeCounters* node = report.mutable_node();
    node->set_bytes_pushed(100 * scale);
    node->set_bytes_answered(50 * scale);
    node->set_pushes(4 * scale);
    node->set_pushes_during_backward(3 * scale);
    node->add_staleness(2 * scale);
    node->add_staleness(scale);
    return report;
  };
  merge.Add(with_counters(Report(0, 0, 10), 1), 1);
  merge.Add(with_counters(Report(1, 0, 10), 2), 1);
  merge.Add(with_counters(Report(0, 10, 20), 5), 1);
  const proto::MetricsRecord record = merge.Add(with_counters(Report(1, 10, 20), 3), 1).at(0);
  EXPECT_EQ(record.bytes_pushed(), 400 + 100);
  EXPECT_EQ(record.bytes_answered(), 200 + 50);
  EXPECT_EQ(record.pushes(), 16 + 4);
  EXPECT_EQ(record.pushes_during_backward(), 12 + 3);
  ASSERT_EQ(record.staleness_size(), 2);
  EXPECT_EQ(record.staleness(0), 8 + 2);
  EXPECT_EQ(record.staleness(1), 4 + 1);
  EXPECT_DOUBLE_EQ(merge.GetProgress().bytes_per_step(), 750 / 20.0 + 450 / 20.0);
}

TEST(MetricsMerge, TheFinalRecordComesLast) {
  MetricsMerge merge = TwoRanks();
  merge.Add(Report(0, 0, 100), 1);
  proto::RankReport last;
  last.set_rank(0);
  last.set_first_step(100);
  last.set_end_step(100);
  last.set_test_accuracy(0.9);
  last.set_final(true);
  EXPECT_TRUE(merge.Add(last, 1).empty());
  const auto records = merge.Add(Report(1, 0, 100), 1);
  ASSERT_EQ(records.size(), 2);
  EXPECT_FALSE(records[0].final());
  EXPECT_TRUE(records[1].final());
  EXPECT_DOUBLE_EQ(records[1].test_accuracy(), 0.9);
  EXPECT_EQ(records[1].samples(), 2000);
  EXPECT_DOUBLE_EQ(merge.GetProgress().test_accuracy(), 0.9);
  EXPECT_TRUE(merge.Flush(1).empty());
}

TEST(MetricsMerge, FlushGivesWhatIsIncomplete) {
  MetricsMerge merge = TwoRanks();
  merge.Add(Report(0, 0, 10), 1);
  const auto records = merge.Flush(1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 100);
}

TEST(MetricsMerge, ProgressIsTheSlowestRanks) {
  MetricsMerge merge = TwoRanks();
  EXPECT_EQ(merge.GetProgress().eta_s(), -1);
  EXPECT_EQ(merge.GetProgress().test_accuracy(), -1);
  merge.Add(Report(0, 0, 10), 1);
  merge.Add(Report(0, 10, 20), 1);
  EXPECT_EQ(merge.GetProgress().step(), 0);
  EXPECT_EQ(merge.GetProgress().eta_s(), -1);
  merge.Add(Report(1, 0, 10), 1);
  const proto::Progress progress = merge.GetProgress();
  EXPECT_EQ(progress.step(), 10);
  EXPECT_EQ(progress.total_steps(), kTotalSteps);
  EXPECT_EQ(progress.samples(), 300);
  EXPECT_DOUBLE_EQ(progress.epoch(), 0.3);
  EXPECT_DOUBLE_EQ(progress.samples_per_s(), 40);
  EXPECT_DOUBLE_EQ(progress.loss(), 2);
  EXPECT_DOUBLE_EQ(progress.eta_s(), 90 * 0.5);  // 0.5 s per step
}

TEST(MetricsMerge, TimeLeftIsFromTheRateOfTheWholeRun) {
  MetricsMerge merge(1, 0, 0, 100);
  proto::RankReport report = Report(0, 0, 10);
  report.set_wall_s(30);
  merge.Add(report, 30);
  report = Report(0, 10, 20);
  report.set_wall_s(10);
  merge.Add(report, 40);
  EXPECT_DOUBLE_EQ(merge.GetProgress().eta_s(), 80 * 2.0);
}

TEST(MetricsMerge, GoesOnAfterARestartWithTheSamplesOfEarlierSteps) {
  MetricsMerge merge = TwoRanks();
  proto::RankReport first = Report(0, 50, 60);
  first.mutable_node()->set_bytes_pushed(1'000'000);
  merge.Add(first, 1);
  const proto::MetricsRecord record = merge.Add(Report(1, 50, 60), 1).at(0);
  EXPECT_EQ(record.samples(), 2 * 600);
  EXPECT_EQ(record.bytes_pushed(), 0) << "the window's share is not known";
  EXPECT_EQ(merge.GetProgress().samples(), 1200);
}

TEST(MetricsMerge, IgnoresRanksThatTheJobDoesNotHave) {
  MetricsMerge merge = TwoRanks();
  EXPECT_TRUE(merge.Add(Report(2, 0, 10), 1).empty());
  EXPECT_TRUE(merge.Flush(1).empty());
}

// A job of 100 steps that goes on with step 60.
MetricsMerge GoesOn() { return MetricsMerge(2, 5, kSamplesPerEpoch, kTotalSteps, 60); }

TEST(MetricsMerge, AJobThatGoesOnHasMadeItsCheckpointsStepsBeforeAnythingIsReported) {
  EXPECT_EQ(GoesOn().GetProgress().step(), 60u);
  EXPECT_EQ(GoesOn().SlowestStep(1, 1), 60u);
  EXPECT_EQ(GoesOn().GetProgress().eta_s(), -1);
}

TEST(MetricsMerge, AJobThatGoesOnCountsSamplesAndEpochsFromItsBeginningAndTimeFromItsOwnSteps) {
  MetricsMerge merge = GoesOn();
  std::vector<proto::MetricsRecord> records;
  for (const uint32_t rank : {0, 1}) {
    proto::RankReport report = Report(rank, 60, 70);
    report.mutable_node()->set_bytes_pushed(1000);
    report.mutable_node()->set_pushes(20);
    records = merge.Add(report, 9);
  }
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].step(), 70u);
  EXPECT_EQ(records[0].samples(), 2u * 70 * 10);
  EXPECT_DOUBLE_EQ(records[0].epoch(), 1.4);
  EXPECT_EQ(records[0].pushes(), 40u) << "counters begin with the process";
  const proto::Progress progress = merge.GetProgress();
  EXPECT_EQ(progress.samples(), 2u * 70 * 10);
  EXPECT_DOUBLE_EQ(progress.epoch(), 1.4);
  EXPECT_DOUBLE_EQ(progress.eta_s(), 30 * 5.0 / 10);
  EXPECT_DOUBLE_EQ(progress.bytes_per_step(), 2 * 1000.0 / 10);
}

TEST(MetricsMerge, ARankThatHadMadeAllItsStepsBeforeTheCheckpointHoldsUpNoRecord) {
  MetricsMerge merge(2, 5, kSamplesPerEpoch, kTotalSteps, 40);
  proto::RankReport begins = Report(1, 100, 100);
  EXPECT_TRUE(merge.Add(begins, 1).empty());
  EXPECT_EQ(merge.GetProgress().step(), 40);
  ASSERT_EQ(merge.Add(Report(0, 40, 50), 2).size(), 1);
  EXPECT_EQ(merge.GetProgress().step(), 50);
  EXPECT_EQ(merge.GetProgress().samples(), 500 + 1000);
  EXPECT_GE(merge.GetProgress().eta_s(), 0);
  ASSERT_EQ(merge.Add(Report(0, 50, 100), 2).size(), 1);
  EXPECT_EQ(merge.GetProgress().step(), 100);
  EXPECT_EQ(merge.GetProgress().samples(), 2000);
}

TEST(MetricsMerge, OfAJobWithNoStepsLeftTheFinalModelsRecordIsTheOnlyOne) {
  MetricsMerge merge(2, 5, kSamplesPerEpoch, 60, 60);
  proto::RankReport last = Report(0, 60, 60);
  last.set_final(true);
  last.set_test_accuracy(0.75);
  const std::vector<proto::MetricsRecord> records = merge.Add(last, 1);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_TRUE(records[0].final());
  EXPECT_EQ(records[0].step(), 60u);
  EXPECT_EQ(records[0].test_accuracy(), 0.75);
}

}  // namespace
}  // namespace strata::server

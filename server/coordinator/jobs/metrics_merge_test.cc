#include "server/coordinator/jobs/metrics_merge.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/processes.pb.h"

namespace strata::server {
namespace {

constexpr uint64_t kSamplesPerEpoch = 1000;
constexpr uint64_t kTotalSteps = 100;

// A window in which a rank made ten samples a step, with loss 2.
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
  EXPECT_TRUE(merge.Add(measured, 9).empty());  // repeated
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

// A window of exchanges, by whose end the rank has made `steps` local steps.
proto::RankReport LocalReport(uint32_t rank, uint64_t first, uint64_t end, uint64_t steps) {
  proto::RankReport report = Report(rank, first, end);
  report.set_local_steps(steps);
  report.set_local_steps_total(50);
  return report;
}

TEST(MetricsMerge, LocalStepsCountAsStepsAndTheLastRoundMayBeShort) {
  MetricsMerge merge(2, 0, 0, /*total_steps=*/4);
  merge.SetLocalSteps(16);
  merge.Add(LocalReport(0, 0, 2, 40), 1);
  std::vector<proto::MetricsRecord> records = merge.Add(LocalReport(1, 0, 2, 40), 1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].step(), 40);
  EXPECT_EQ(merge.GetProgress().step(), 40);
  EXPECT_EQ(merge.GetProgress().total_steps(), 50);
  EXPECT_EQ(merge.ShownStep(1, 1), 40);
  EXPECT_EQ(merge.SlowestStep(0, 2), 2) << "the job counts exchanges";
  proto::RankReport measured = LocalReport(0, 2, 2, 45);
  measured.set_samples(0);
  measured.set_test_accuracy(0.5);
  records = merge.Add(measured, 2);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].step(), 45);
  merge.Add(LocalReport(0, 2, 4, 50), 3);
  records = merge.Add(LocalReport(1, 2, 4, 50), 3);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].step(), 50);
  EXPECT_EQ(merge.GetProgress().step(), 50);
}

TEST(MetricsMerge, ExchangesStandForTheirLocalStepsWhereRanksDoNotSayThem) {
  MetricsMerge merge(1, 0, 0, /*total_steps=*/10, /*first_step=*/3);
  merge.SetLocalSteps(16);
  EXPECT_EQ(merge.GetProgress().step(), 48) << "of the checkpoint";
  EXPECT_EQ(merge.GetProgress().total_steps(), 160);
  proto::RankReport report = Report(0, 3, 5);
  report.mutable_node()->set_bytes_pushed(3200);
  EXPECT_EQ(merge.Add(report, 1).at(0).step(), 80);
  EXPECT_EQ(merge.GetProgress().step(), 80);
  EXPECT_EQ(merge.GetProgress().bytes_per_step(), 100);
}

// A measurement of rank 0, with the number that its process gives it.
proto::RankReport Measured(uint64_t step, uint64_t number, double value) {
  proto::RankReport report;
  report.set_first_step(step);
  report.set_end_step(step);
  report.set_number(number);
  (*report.mutable_values())["perplexity"] = value;
  return report;
}

TEST(MetricsMerge, EachNumberedMeasurementIsARecordOnceAlsoOfTheSameNameAndStep) {
  MetricsMerge merge = TwoRanks();
  std::vector<std::pair<uint64_t, double>> told;
  const auto add = [&](const proto::RankReport& report) {
    for (const proto::MetricsRecord& record : merge.Add(report, 9)) {
      EXPECT_EQ(record.number(), report.number());
      told.emplace_back(record.step(), record.values().at("perplexity"));
    }
  };
  add(Measured(0, 1, 9));  // before the first step
  add(Measured(5, 2, 8));
  add(Measured(5, 3, 7));
  for (const uint64_t repeated : {2, 3}) add(Measured(5, repeated, 1));  // the connection broke
  add(Measured(5, 4, 7));
  EXPECT_EQ(merge.GetProgress().values().at("perplexity"), 7);
  add(Measured(4, 5, 6));  // about weights that were kept
  EXPECT_EQ(merge.GetProgress().values().at("perplexity"), 7);
  const std::vector<std::pair<uint64_t, double>> each = {{0, 9}, {5, 8}, {5, 7}, {5, 7}, {4, 6}};
  EXPECT_EQ(told, each);
  proto::RankReport of_another_rank = Measured(5, 6, 1);
  of_another_rank.set_rank(1);
  EXPECT_TRUE(merge.Add(of_another_rank, 9).empty());
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
  // Waits outside of any exchange do not make it negative.
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
  // A window that one rank never reports is closed by that rank's next one.
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

TEST(MetricsMerge, EpochsThatARankLearnsOnTheWayShowHowFarItIsAndTheTimeLeft) {
  MetricsMerge merge(2, 0, 0, 0);
  merge.Add(Report(0, 0, 10), 1);
  EXPECT_EQ(merge.GetProgress().eta_s(), -1);
  for (uint32_t rank : {0, 1}) {
    proto::RankReport report = Report(rank, rank == 0 ? 10 : 0, 20);
    report.set_samples_per_epoch(500);
    report.set_epochs(4);
    merge.Add(report, 2);
  }
  const proto::Progress progress = merge.GetProgress();
  EXPECT_EQ(progress.epochs(), 4);
  EXPECT_DOUBLE_EQ(progress.epoch(), 400 / 500.0);
  // Rank 0 made 200 samples in 10 s, rank 1 200 in 5 s.
  EXPECT_DOUBLE_EQ(progress.eta_s(), (4 * 500 - 400) / (20.0 + 40.0));
  // A script that draws ahead of its steps never shows an epoch after the last.
  proto::RankReport ahead = Report(0, 20, 30);
  ahead.set_samples(5000);
  merge.Add(ahead, 3);
  EXPECT_DOUBLE_EQ(merge.GetProgress().epoch(), 4);
  EXPECT_DOUBLE_EQ(merge.GetProgress().eta_s(), 0);
}

TEST(MetricsMerge, WhatTheJobSaysOfItsEpochsStandsAboveWhatARankLearns) {
  MetricsMerge merge = TwoRanks();
  proto::RankReport report = Report(0, 0, 10);
  report.set_samples_per_epoch(17);
  report.set_epochs(3);
  merge.Add(report, 1);
  EXPECT_EQ(merge.GetProgress().epochs(), 5);
  EXPECT_DOUBLE_EQ(merge.GetProgress().epoch(), 0.1);
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

// A job of 100 steps that resumes at step 60.
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

constexpr char kAdvice[] =
    ": each rank must change its weights as all do"
    " (DistributedOptimizer(check_every=0) compares nothing)";

proto::RankState State(uint64_t step, const std::string& decay, uint64_t weights) {
  proto::RankState state;
  state.set_step(step);
  proto::StateItem* const option = state.add_items();
  option->set_name("weight_decay (of group 0)");
  option->set_value(decay);
  proto::StateItem* const tensor = state.add_items();
  tensor->set_name("0.\nweight");
  tensor->set_checksum(weights);
  return state;
}

TEST(RankStates, TheFirstDifferenceOfAStepIsNamedWithBothRanks) {
  RankStates states;
  EXPECT_EQ(states.Add(1, State(6, "0", 5)), "");
  EXPECT_EQ(states.Add(2, State(6, "0", 5)), "");
  EXPECT_EQ(states.Add(2, State(7, "0.1", 6)), "") << "of another step";
  EXPECT_EQ(states.Add(0, State(6, "0", 7)),
            absl::StrCat("rank 1's \"0.\\nweight\" differs from rank 0's after step 6", kAdvice));
  EXPECT_EQ(states.Add(3, State(6, "0.1", 7)),
            absl::StrCat("rank 3's optimizer has weight_decay (of group 0) 0.1, rank 1's 0 after "
                         "step 6",
                         kAdvice));
  proto::RankState other = State(6, "0", 5);
  other.mutable_items(1)->set_name("1.weight");
  EXPECT_EQ(states.Add(3, other),
            absl::StrCat("rank 3 has \"1.weight\" where rank 1 has \"0.\\nweight\" after step 6",
                         kAdvice));
  other.mutable_items()->RemoveLast();
  EXPECT_NE(states.Add(3, other), "");
}

TEST(RankStates, TheNewestStepsAreKept) {
  RankStates states;
  for (uint64_t step = 1; step <= 5; ++step) EXPECT_EQ(states.Add(0, State(step, "0", 1)), "");
  EXPECT_EQ(states.Add(1, State(1, "0", 2)), "") << "no longer known";
  EXPECT_NE(states.Add(1, State(2, "0", 2)), "");
  EXPECT_NE(states.Add(1, State(5, "0", 2)), "");
}

TEST(RankStates, WhatIsTooLargeIsNotKept) {
  RankStates states;
  proto::RankState large = State(1, "0", 1);
  large.mutable_items(0)->set_name(std::string(RankStates::kBytesMax, 'n'));
  EXPECT_EQ(states.Add(0, large), "");
  EXPECT_EQ(states.Add(1, State(1, "0", 2)), "") << "is the first";
  for (int i = 0; i < RankStates::kItemsMax; ++i) large.add_items();
  large.mutable_items(0)->clear_name();
  EXPECT_EQ(states.Add(2, large), "");
}

// ---- ranks that are restarted ----

// Rank 1 has reported until step 20 and was then restarted at step 15.
TEST(MetricsMergeReplace, StepsThatARankMakesAgainCountOnce) {
  MetricsMerge merge = TwoRanks();
  for (const uint64_t first : {0, 10}) {
    for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, first, first + 10), 1);
  }
  merge.StartOver(1, 1);
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
  merge.StartOver(1, 1);  // from step 18, which it had not reported
  merge.Add(Report(0, 10, 20), 1);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 18, 20), 1);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 400);
  EXPECT_EQ(merge.GetProgress().samples(), 400);
}

// Rank 1 dies after making all its steps; their last window is reported at the very end.
TEST(MetricsMergeReplace, StepsThatWereMadeBeforeARankBeganAnewCountWhereItMakesNoMore) {
  MetricsMerge merge = TwoRanks();
  for (const uint32_t rank : {0, 1}) merge.Add(Report(rank, 0, 90), 1);
  merge.StartOver(1, 1);
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
  merge.StartOver(1, 1);
  merge.Add(Report(1, 18, 18), 1);
  EXPECT_TRUE(merge.Add(Report(1, 10, 15), 1).empty()) << "of steps that it has counted";
  merge.StartOver(1, 1);
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
  merge.StartOver(0, 1);
  EXPECT_EQ(add(20, 1200, 3).bytes_pushed(), 1200);
  merge.StartOver(0, 1);
  const proto::MetricsRecord record = add(30, 1500, 4);
  EXPECT_EQ(record.bytes_pushed(), 1500);
  EXPECT_EQ(record.staleness(1), 4);
  EXPECT_DOUBLE_EQ(merge.GetProgress().bytes_per_step(), (2000 + 1200 + 1500) / 40.0);
}

// ---- ranks that join and leave ----

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
  merge.StartOver(1, 1);
  EXPECT_GE(merge.GetProgress().bytes_per_step(), 0) << "of steps that it has reported since";
  merge.Add(Report(0, 20, 30), 3);
  const std::vector<proto::MetricsRecord> records = merge.Add(Report(1, 20, 30), 3);
  ASSERT_EQ(records.size(), 1);
  EXPECT_EQ(records[0].samples(), 500);
}

// Three ranks made 50 steps, and one continues.
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

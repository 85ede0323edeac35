#include "compare/campaign/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "common/job/job.h"
#include "proto/processes.pb.h"

namespace strata::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// A window of steps [first, end), of 10 samples each; the loss is 1 a sample.
proto::RankReport Report(uint32_t rank, uint64_t first, uint64_t end, double trained_s) {
  proto::RankReport report;
  report.set_rank(rank);
  report.set_first_step(first);
  report.set_end_step(end);
  report.set_samples((end - first) * 10);
  report.set_loss_sum(static_cast<double>(report.samples()));
  report.set_wall_s(2);
  report.set_wait_s(0.5);
  report.set_trained_s(trained_s);
  return report;
}

proto::RankReport Final(proto::RankReport report) {
  report.set_final(true);
  return report;
}

proto::RankReport Tested(proto::RankReport report, double accuracy) {
  report.set_test_accuracy(accuracy);
  report.set_test_loss(1 - accuracy);
  return report;
}

// One rank, 10 samples a step.
RunPlan Plan() {
  RunPlan plan;
  plan.mode = "sync";
  plan.job.set_ranks(1);
  plan.job.set_seed(3);
  plan.job.mutable_data()->set_batch_per_rank(10);
  plan.job.mutable_consistency()->mutable_lazy();
  return plan;
}

proto::JobStatus Status(proto::JobState state) {
  proto::JobStatus status;
  status.set_state(state);
  proto::JobNodeStatus* node = status.add_nodes();
  node->set_ranks(1);
  return status;
}

proto::RankReport Window(uint32_t attempt, uint64_t first, uint64_t end, double trained_s) {
  proto::RankReport report = Report(/*rank=*/0, first, end, trained_s);
  report.set_attempt(attempt);
  return report;
}

proto::RankReport Last(uint32_t attempt, uint64_t first, uint64_t end, double trained_s) {
  return Final(Tested(Window(attempt, first, end, trained_s), 0.9));
}

// Weights of the step were measured after training.
proto::RankReport Late(uint32_t attempt, uint64_t step, double accuracy) {
  return Tested(Window(attempt, step, step, 0), accuracy);
}

class RunLogTest : public testing::Test {
 protected:
  RunLogTest() { log_.Add(Status(proto::RUNNING)); }

  RunLog log_{Plan(), nullptr};
};

TEST_F(RunLogTest, AJobThatWentOnByItselfMakesTheRecordOfOneWholeRun) {
  log_.Add(Window(0, 0, 20, 2));
  log_.Add(Window(0, 20, 40, 4));
  log_.Add(Window(0, 40, 50, 9));  // made again
  log_.Add(Window(1, 40, 40, 0));  // where it goes on
  log_.Add(Window(0, 50, 60, 10));
  log_.Add(Window(1, 40, 60, 3));
  log_.Add(Late(1, 20, 0.5));
  log_.Add(Last(1, 60, 80, 5));
  const auto record = log_.MakeRecord(Status(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->resumed_step(), 40);
  EXPECT_EQ(record->steps(), 80);
  EXPECT_EQ(record->samples(), 800);
  EXPECT_DOUBLE_EQ(record->trained_s(), 4 + 5);
  ASSERT_THAT(record->windows(), SizeIs(4));
  EXPECT_DOUBLE_EQ(record->windows(2).trained_s(), 4 + 3);
  // A measurement of earlier weights has the time of those weights.
  ASSERT_THAT(record->measurements(), SizeIs(2));
  EXPECT_EQ(record->measurements(0).step(), 20);
  EXPECT_DOUBLE_EQ(record->measurements(0).trained_s(), 2);
  EXPECT_DOUBLE_EQ(record->measurements(1).trained_s(), 9);
}

TEST_F(RunLogTest, ItMayGoOnMoreThanOnceAndFromTheStart) {
  log_.Add(Window(0, 0, 20, 2));
  log_.Add(Window(1, 20, 20, 0));
  log_.Add(Window(1, 20, 40, 2));
  log_.Add(Window(2, 40, 40, 0));
  log_.Add(Last(2, 40, 60, 2));
  const auto record = log_.MakeRecord(Status(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_DOUBLE_EQ(record->trained_s(), 6);
  EXPECT_THAT(record->windows(), SizeIs(3));
  // No checkpoint was whole yet.
  log_.Add(Window(3, 0, 30, 1));
  log_.Add(Last(3, 30, 60, 2));
  EXPECT_DOUBLE_EQ(log_.MakeRecord(Status(proto::FINISHED))->trained_s(), 2);
  EXPECT_EQ(log_.MakeRecord(Status(proto::FINISHED))->resumed_step(), 0);
}

TEST_F(RunLogTest, StepsThatNobodyHeardOfAreMissed) {
  log_.Add(Window(0, 0, 20, 2));
  log_.Add(Window(1, 30, 30, 0));
  log_.Add(Last(1, 30, 60, 2));
  EXPECT_TRUE(absl::IsDataLoss(log_.MakeRecord(Status(proto::FINISHED)).status()));
}

TEST_F(RunLogTest, WhatIsDoneSoFarIsWhatAnotherRunGoesOnFrom) {
  log_.Add(Window(0, 0, 20, 2));
  log_.Add(Window(0, 20, 40, 4));
  const auto so_far = log_.SoFar();
  ASSERT_TRUE(so_far.ok()) << so_far.status();
  EXPECT_EQ(so_far->failure(), "");
  EXPECT_EQ(so_far->steps(), 40);
  RunLog next(Plan(), std::make_shared<proto::RunRecord>(*so_far));
  next.Add(Status(proto::RUNNING));
  EXPECT_FALSE(next.has_begun());
  next.Add(Window(0, 40, 40, 0));
  next.Add(Last(0, 40, 60, 2));
  const auto record = next.MakeRecord(Status(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->steps(), 60);
  EXPECT_DOUBLE_EQ(record->trained_s(), 6);
  EXPECT_THAT(record->windows(), SizeIs(3));
}

// Two nodes of one rank each, batches of 10.
RunPlan ReportPlanOf(const std::string& consistency, const std::string& more = "") {
  auto job = ParseJob(R"(name: "tiny" model { zoo: "mlp" } data { synthetic {} batch_per_rank: 10 }
                         ranks: 2 seed: 5 consistency { )" +
                          consistency + " } " + more,
                      "tiny");
  EXPECT_TRUE(job.ok()) << job.status();
  FillDefaults(&*job);
  return {"the mode", *job};
}

proto::JobStatus EndOf(proto::JobState state, const std::string& reason = "") {
  proto::JobStatus end;
  end.set_state(state);
  end.set_reason(reason);
  for (uint32_t node = 0; node < 2; ++node) {
    end.add_nodes()->set_first_rank(node);
    end.mutable_nodes(node)->set_ranks(1);
  }
  return end;
}

// 20 steps; rank 1 takes twice as long for its own. Measured after 10 steps, and at the end.
proto::RunRecord MakeRecord(const std::string& consistency) {
  ReportLog log(ReportPlanOf(consistency));
  log.Add(Report(0, 0, 10, 1));
  log.Add(Report(1, 0, 10, 2));
  log.Add(Tested(Report(0, 10, 10, 1.5), 0.5));
  log.Add(Final(Report(1, 10, 20, 4)));
  log.Add(Tested(Final(Report(0, 10, 20, 2)), 0.75));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? *record : proto::RunRecord();
}

TEST(ReportLog, TheRecordSaysWhatRanAndSumsItUp) {
  ReportLog log(ReportPlanOf("sync {}"));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    proto::RankReport report = Final(Report(rank, 0, 10, 3 + rank));
    report.mutable_node()->set_bytes_pushed(1000);
    report.mutable_node()->set_bytes_answered(10);
    report.mutable_node()->add_staleness(7);
    if (rank == 1) report.mutable_node()->add_staleness(2);
    log.Add(report);
  }
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->mode(), "the mode");
  EXPECT_EQ(record->seed(), 5u);
  EXPECT_EQ(record->job().seed(), 5u);
  EXPECT_EQ(record->failure(), "");
  EXPECT_EQ(record->trained_s(), 4);
  EXPECT_EQ(record->samples(), 200u);
  EXPECT_EQ(record->steps(), 10u);
  EXPECT_EQ(record->bytes_pushed(), 2000u);
  EXPECT_EQ(record->bytes_answered(), 20u);
  EXPECT_EQ(record->waiting_share(), 0.25);
  EXPECT_THAT(record->staleness(), ElementsAre(14, 2));
}

TEST(ReportLog, InStepAMeasurementIsOfAllRanksAtRank0sStep) {
  const proto::RunRecord record = MakeRecord("sync {}");
  ASSERT_EQ(record.measurements_size(), 2);
  EXPECT_EQ(record.measurements(0).step(), 10u);
  EXPECT_EQ(record.measurements(0).samples(), 200u);
  EXPECT_EQ(record.measurements(0).updates(), 10u);
  EXPECT_EQ(record.measurements(0).trained_s(), 1.5);
  EXPECT_EQ(record.measurements(0).accuracy(), 0.5);
  EXPECT_EQ(record.measurements(0).loss(), 0.5);
  EXPECT_EQ(record.measurements(1).samples(), 400u);
  EXPECT_EQ(record.measurements(1).updates(), 20u);
  EXPECT_EQ(record.measurements(1).accuracy(), 0.75);
}

TEST(ReportLog, ElseItIsOfWhatEachRankHadMadeByThen) {
  // Rank 1 is at step 7.5 after 1.5 s.
  const proto::RunRecord async = MakeRecord("async {}");
  EXPECT_EQ(async.measurements(0).samples(), 175u);
  EXPECT_EQ(async.measurements(0).updates(), 17u);  // 10 + 7
  EXPECT_EQ(async.measurements(1).samples(), 400u);
  EXPECT_EQ(async.measurements(1).updates(), 40u);
  const proto::RunRecord lazy = MakeRecord("lazy { staleness: 3 }");
  EXPECT_EQ(lazy.measurements(0).samples(), 175u);
  EXPECT_EQ(lazy.measurements(0).updates(), 7u);  // clocks that both have pushed
  EXPECT_EQ(lazy.measurements(1).updates(), 20u);
  EXPECT_EQ(MakeRecord("lazy { staleness: 3 apply: ON_ARRIVAL }").updates(), 40u);
}

TEST(ReportLog, UpdatesOfLocalStepsAreRounds) {
  const proto::RunRecord record = MakeRecord("lazy { local_steps: 8 }");
  EXPECT_EQ(record.measurements(0).samples(), 200u);
  EXPECT_EQ(record.measurements(0).updates(), 1u);
  EXPECT_EQ(record.updates(), 3u);  // 8, 8 and 4 steps
}

TEST(ReportLog, InStepWindowsAreTheSameStepsOfAllRanks) {
  ReportLog log(ReportPlanOf("sync {}"));
  proto::RankReport worse = Report(1, 0, 10, 2.5);
  worse.set_loss_sum(300);
  log.Add(worse);
  log.Add(Final(Report(1, 10, 15, 3)));
  log.Add(Report(0, 0, 10, 2));
  log.Add(Final(Report(0, 10, 15, 2.75)));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_EQ(record->windows_size(), 2);
  EXPECT_EQ(record->windows(0).samples(), 200u);
  EXPECT_EQ(record->windows(0).trained_s(), 2.5);
  EXPECT_EQ(record->windows(0).loss(), 2);
  EXPECT_EQ(record->windows(1).samples(), 300u);
  EXPECT_EQ(record->windows(1).loss(), 1);
}

TEST(ReportLog, ElseWindowsFollowTime) {
  // Rank 0 has made both its windows before rank 1 has made one.
  const proto::RunRecord record = [] {
    ReportLog log(ReportPlanOf("async {}"));
    for (uint64_t i = 0; i < 2; ++i) {
      proto::RankReport fast = Report(0, 10 * i, 10 * i + 10, 1.0 + static_cast<double>(i));
      proto::RankReport slow = Report(1, 10 * i, 10 * i + 10, 5.0 + static_cast<double>(i));
      slow.set_loss_sum(400);
      log.Add(i == 1 ? Final(slow) : slow);
      log.Add(i == 1 ? Final(fast) : fast);
    }
    return *log.MakeRecord(EndOf(proto::FINISHED));
  }();
  ASSERT_EQ(record.windows_size(), 2);
  EXPECT_EQ(record.windows(0).samples(), 200u);
  EXPECT_EQ(record.windows(0).trained_s(), 2);
  EXPECT_EQ(record.windows(0).loss(), 1);
  EXPECT_EQ(record.windows(1).samples(), 400u);
  EXPECT_EQ(record.windows(1).trained_s(), 6);
  EXPECT_EQ(record.windows(1).loss(), 4);
}

TEST(ReportLog, AFailedRunKeepsWhatItHadReached) {
  ReportLog log(ReportPlanOf("sync {}"));
  log.Add(Report(0, 0, 10, 1));
  log.Add(Report(1, 0, 10, 2));
  log.Add(Report(0, 10, 20, 2));
  const auto record = log.MakeRecord(EndOf(proto::FAILED, "rank 1: loss is NaN at step 19"));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->failure(), "rank 1: loss is NaN at step 19");
  EXPECT_EQ(record->steps(), 10u);
  EXPECT_EQ(record->updates(), 10u);
  EXPECT_EQ(record->windows_size(), 1);
  EXPECT_EQ(record->measurements_size(), 0);
  ReportLog none(ReportPlanOf("sync {}"));
  EXPECT_EQ(none.MakeRecord(EndOf(proto::FAILED, "x"))->steps(), 0u);
}

TEST(ReportLog, MissedReportsAreNoticed) {
  const auto code = [](const std::vector<proto::RankReport>& reports, proto::JobState state) {
    ReportLog log(ReportPlanOf("sync {}"));
    for (const proto::RankReport& report : reports) log.Add(report);
    return log.MakeRecord(EndOf(state)).status().code();
  };
  const auto end = Final(Report(1, 0, 20, 2));
  using absl::StatusCode;
  // Also of ranks that have said where they go on.
  EXPECT_EQ(code({Report(0, 5, 5, 0), Final(Report(0, 10, 20, 1)), end}, proto::FINISHED),
            StatusCode::kDataLoss);
  // Missing at the start, in the middle, at the end; duplicates do no harm.
  EXPECT_EQ(code({Final(Report(0, 10, 20, 1)), end}, proto::FINISHED), StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 0, 5, 1), Final(Report(0, 10, 20, 2)), end}, proto::FINISHED),
            StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 0, 10, 1), end}, proto::FINISHED), StatusCode::kDataLoss);
  EXPECT_EQ(code({end}, proto::FINISHED), StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 10, 20, 1)}, proto::FAILED), StatusCode::kDataLoss);
  EXPECT_EQ(code({Report(0, 0, 10, 1), Report(0, 0, 10, 1), Final(Report(0, 10, 20, 2)), end},
                 proto::FINISHED),
            StatusCode::kOk);
}

// Each rank first says at which step it resumes.
proto::RunRecord GoneOn(const std::string& consistency, uint64_t first, uint64_t second) {
  ReportLog log(ReportPlanOf(consistency));
  EXPECT_FALSE(log.has_begun());
  log.Add(Report(0, first, first, 0));
  log.Add(Report(1, second, second, 0));
  EXPECT_TRUE(log.has_begun());
  log.Add(Report(0, first, 30, 1));
  log.Add(Report(1, second, 30, 2));
  log.Add(Tested(Report(0, 30, 30, 1), 0.5));
  log.Add(Final(Report(1, 30, 40, 4)));
  log.Add(Tested(Final(Report(0, 30, 40, 2)), 0.75));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  EXPECT_TRUE(record.ok()) << record.status();
  return record.ok() ? *record : proto::RunRecord();
}

TEST(ReportLog, AJobThatGoesOnCountsSamplesAndUpdatesFromTheStart) {
  const proto::RunRecord record = GoneOn("sync {}", 20, 20);
  EXPECT_EQ(record.resumed_step(), 20);
  EXPECT_EQ(record.resumed_samples(), 400);
  EXPECT_EQ(record.steps(), 40);
  EXPECT_EQ(record.samples(), 800);
  EXPECT_EQ(record.updates(), 40);
  EXPECT_EQ(record.trained_s(), 4);
  ASSERT_EQ(record.windows_size(), 2);
  EXPECT_EQ(record.windows(0).samples(), 600);
  EXPECT_EQ(record.windows(1).samples(), 800);
  ASSERT_EQ(record.measurements_size(), 2);
  EXPECT_EQ(record.measurements(0).samples(), 600);
  EXPECT_EQ(record.measurements(0).updates(), 30);
}

TEST(ReportLog, RanksThatAreNotInStepGoOnFromStepsOfTheirOwn) {
  const proto::RunRecord record = GoneOn("async {}", 20, 22);
  EXPECT_EQ(record.resumed_step(), 20);
  EXPECT_EQ(record.resumed_samples(), 420);
  EXPECT_EQ(record.samples(), 800);
  // Rank 1 is half-way from step 22 to step 30 then.
  EXPECT_EQ(record.measurements(0).samples(), 560);
  EXPECT_EQ(record.measurements(0).updates(), 56);
}

// A program's ranks report what they like: here rank 0 alone, its values apart from its windows.
TEST(ReportLog, OfAProgramWhatRank0SaysIsEnough) {
  auto job = ParseJob("name: 'p' program { path: 'p' } ranks: 2 consistency { sync {} }", "p");
  ASSERT_TRUE(job.ok()) << job.status();
  FillDefaults(&*job);
  ReportLog log({"sync", *job});
  log.Add(Report(0, 0, 10, 1));
  proto::RankReport values = Report(0, 10, 10, 1.5);
  (*values.mutable_values())["perplexity"] = 12.5;
  log.Add(values);
  log.Add(Tested(Report(0, 10, 10, 1.75), 0.5));
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->steps(), 10);
  EXPECT_EQ(record->samples(), 200);
  EXPECT_EQ(record->windows_size(), 1);
  ASSERT_EQ(record->measurements_size(), 1);
  const proto::Measurement& measured = record->measurements(0);
  EXPECT_EQ(measured.samples(), 200);
  EXPECT_EQ(measured.accuracy(), 0.5);
  EXPECT_EQ(measured.values().at("perplexity"), 12.5);
  EXPECT_EQ(measured.trained_s(), 1.75);
}

TEST(ReportLog, ATestLossIsMeasuredBesideWhatElseIsThere) {
  ReportLog log(ReportPlanOf("sync {}"));
  log.Add(Report(0, 0, 40, 1));
  log.Add(Final(Report(1, 0, 40, 1)));
  proto::RankReport loss = Report(0, 40, 40, 1);
  loss.set_test_loss(0.25);
  log.Add(loss);
  proto::RankReport accuracy = Report(0, 40, 40, 1);
  accuracy.set_test_accuracy(0.5);
  accuracy.set_final(true);
  log.Add(accuracy);
  const auto record = log.MakeRecord(EndOf(proto::FINISHED));
  ASSERT_TRUE(record.ok()) << record.status();
  ASSERT_EQ(record->measurements_size(), 1);
  EXPECT_EQ(record->measurements(0).loss(), 0.25);
  EXPECT_EQ(record->measurements(0).accuracy(), 0.5);
}

struct Part {
  uint64_t samples;
  double trained_s;
};

void AddWindow(const Part& end, proto::RunRecord* record) {
  proto::Window* window = record->add_windows();
  window->set_samples(end.samples);
  window->set_trained_s(end.trained_s);
}

void AddMeasurement(uint64_t step, double trained_s, double accuracy, proto::RunRecord* record) {
  proto::Measurement* measurement = record->add_measurements();
  measurement->set_step(step);
  measurement->set_samples(10 * step);
  measurement->set_trained_s(trained_s);
  measurement->set_accuracy(accuracy);
}

// 20 steps of 10 samples in 4 s, of which half was waiting.
proto::RunRecord Earlier() {
  proto::RunRecord record;
  record.set_trained_s(4);
  record.set_samples(200);
  record.set_steps(20);
  record.set_updates(20);
  record.set_bytes_pushed(2000);
  record.set_bytes_answered(1000);
  record.set_waiting_share(0.5);
  record.add_staleness(20);
  AddWindow({100, 1}, &record);
  AddWindow({200, 4}, &record);
  AddMeasurement(10, 1, 0.25, &record);
  AddMeasurement(20, 4, 0.5, &record);
  return record;
}

// Up to step 40, in 8 s without waiting.
proto::RunRecord GoneOnFrom(uint64_t step) {
  proto::RunRecord record;
  record.set_resumed_step(step);
  record.set_resumed_samples(10 * step);
  record.set_trained_s(8);
  record.set_samples(400);
  record.set_steps(40);
  record.set_updates(40);
  record.set_bytes_pushed(3000);
  record.set_bytes_answered(500);
  record.add_staleness(15);
  record.add_staleness(5);
  AddWindow({300, 3}, &record);
  AddWindow({400, 8}, &record);
  AddMeasurement(step, 0, 0.5, &record);
  AddMeasurement(40, 8, 0.75, &record);
  return record;
}

std::vector<uint64_t> StepsMeasured(const proto::RunRecord& record) {
  std::vector<uint64_t> steps;
  for (const proto::Measurement& each : record.measurements()) steps.push_back(each.step());
  return steps;
}

TEST(ContinuedRecord, IsThatOfOneRunAndCountsNothingTwice) {
  const proto::RunRecord whole = Continued(Earlier(), GoneOnFrom(20));
  EXPECT_EQ(whole.trained_s(), 12);
  EXPECT_EQ(whole.samples(), 400);
  EXPECT_EQ(whole.steps(), 40);
  EXPECT_EQ(whole.updates(), 40);
  EXPECT_EQ(whole.bytes_pushed(), 5000);
  EXPECT_EQ(whole.bytes_answered(), 1500);
  EXPECT_THAT(whole.staleness(), ElementsAre(35, 5));
  EXPECT_DOUBLE_EQ(whole.waiting_share(), 2.0 / 12);
  ASSERT_EQ(whole.windows_size(), 4);
  EXPECT_EQ(whole.windows(1).trained_s(), 4);
  EXPECT_EQ(whole.windows(2).samples(), 300);
  EXPECT_EQ(whole.windows(2).trained_s(), 7);
  EXPECT_EQ(whole.windows(3).trained_s(), 12);
  EXPECT_THAT(StepsMeasured(whole), ElementsAre(10, 20, 40));
  EXPECT_EQ(whole.measurements(1).trained_s(), 4);
  EXPECT_EQ(whole.measurements(2).trained_s(), 12);
  EXPECT_EQ(whole.resumed_step(), 20);
}

TEST(ContinuedRecord, OfStepsThatWereMadeAgainOnlyTheLaterOnesCount) {
  // From the middle of the second window: at 2.5 s.
  const proto::RunRecord whole = Continued(Earlier(), GoneOnFrom(15));
  EXPECT_EQ(whole.trained_s(), 10.5);
  EXPECT_EQ(whole.samples(), 400);
  EXPECT_EQ(whole.bytes_pushed(), 3000 + 1500);
  EXPECT_THAT(whole.staleness(), ElementsAre(30, 5));
  ASSERT_EQ(whole.windows_size(), 3);
  EXPECT_EQ(whole.windows(1).samples(), 300);
  EXPECT_EQ(whole.windows(1).trained_s(), 5.5);
  EXPECT_THAT(StepsMeasured(whole), ElementsAre(10, 15, 40));
  EXPECT_EQ(whole.measurements(1).trained_s(), 2.5);
}

TEST(ContinuedRecord, GoesOnFromOneThatWentOnItself) {
  proto::RunRecord last = GoneOnFrom(40);
  last.set_samples(800);
  last.set_steps(80);
  last.clear_windows();
  last.clear_measurements();
  AddWindow({800, 8}, &last);
  AddMeasurement(80, 8, 0.9, &last);
  const proto::RunRecord whole = Continued(Continued(Earlier(), GoneOnFrom(20)), last);
  EXPECT_EQ(whole.trained_s(), 20);
  EXPECT_EQ(whole.windows_size(), 5);
  EXPECT_THAT(StepsMeasured(whole), ElementsAre(10, 20, 40, 80));
  EXPECT_EQ(whole.resumed_samples(), 400);
}

}  // namespace

}  // namespace strata::compare

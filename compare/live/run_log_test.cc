#include "compare/live/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "compare/live/test_reports.h"

namespace strata::compare {
namespace {

using ::testing::SizeIs;

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
  // What was measured of the time before stands where those weights were.
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

}  // namespace
}  // namespace strata::compare

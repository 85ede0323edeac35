#include "compare/live/continued_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace strata::compare {
namespace {

using ::testing::ElementsAre;

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

#include "cli/render/job_course.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

proto::MetricsRecord Window(uint64_t step) {
  proto::MetricsRecord record;
  record.set_step(step);
  record.set_samples(step * 8);
  record.set_loss(1.0 / step);
  record.set_bytes_pushed(10);
  record.add_staleness(1);
  return record;
}

proto::RankReport Report(uint32_t rank, uint64_t end_step) {
  proto::RankReport report;
  report.set_rank(rank);
  report.set_end_step(end_step);
  report.set_samples(80);
  report.set_wall_s(2);
  report.set_wait_s(0.5);
  return report;
}

uint64_t Pushed(const JobCourse& course) {
  uint64_t pushed = 0;
  for (const CoursePoint& point : course.points()) pushed += point.bytes_pushed;
  return pushed;
}

TEST(JobCourseTest, AWindowThatWasToldBeforeChangesNothing) {
  JobCourse course(0);
  for (const uint64_t step : {10, 20, 10, 20, 30}) course.Add(Window(step));
  ASSERT_THAT(course.points(), SizeIs(3));
  EXPECT_EQ(course.points()[2].step, 30u);
  EXPECT_EQ(course.points()[2].hidden_share, -1);
}

TEST(JobCourseTest, ALongJobIsThinnedEvenlyAndNothingCountedIsLost) {
  JobCourse course(0);
  constexpr uint64_t kWindows = 12345;
  for (uint64_t i = 1; i <= kWindows; ++i) {
    course.Add(Window(10 * i));
    ASSERT_LE(course.points().size(), kCoursePointsMax);
    ASSERT_EQ(course.points().back().step, 10 * i) << "the newest is always there";
    ASSERT_EQ(Pushed(course), 10 * i);
  }
  const std::vector<CoursePoint>& points = course.points();
  EXPECT_GT(points.size(), kCoursePointsMax / 2);
  for (size_t i = 2; i + 1 < points.size(); ++i) {
    EXPECT_EQ(points[i].step - points[i - 1].step, points[1].step - points[0].step) << i;
  }
  EXPECT_EQ(points[0].staleness[0], points[0].step / 10);
}

TEST(JobCourseTest, AnAccuracyIsKeptWhereverItWasMeasured) {
  JobCourse course(0);
  for (uint64_t i = 1; i <= 5000; ++i) {
    proto::MetricsRecord record = Window(i);
    if (i == 1001) record.set_test_accuracy(0.75);
    course.Add(record);
  }
  int found = 0;
  for (const CoursePoint& point : course.points()) found += point.test_accuracy == 0.75;
  EXPECT_EQ(found, 1);
}

TEST(JobCourseTest, AMeasurementThatComesLateFindsItsWindow) {
  JobCourse course(0);
  for (const uint64_t step : {10, 20}) course.Add(Window(step));
  proto::MetricsRecord late;
  late.set_step(10);
  late.set_test_accuracy(0.5);
  course.Add(late);
  EXPECT_EQ(course.points()[0].test_accuracy, 0.5);
  late.set_step(25);
  course.Add(late);
  ASSERT_THAT(course.points(), SizeIs(3));
  EXPECT_TRUE(std::isnan(course.points()[2].loss));
  course.Add(Window(30));
  ASSERT_THAT(course.points(), SizeIs(4));
  EXPECT_EQ(course.points()[3].test_accuracy, -1);
}

TEST(JobCourseTest, AJobThatGoesBackMakesItsStepsAgain) {
  JobCourse course(15);
  for (const uint64_t step : {20, 30, 40}) course.Add(Window(step));
  for (const uint64_t step : {20, 30, 40}) course.Add(Report(1, step));
  course.GoBackTo(25);
  ASSERT_THAT(course.points(), SizeIs(1));
  EXPECT_THAT(course.ranks().at(1), SizeIs(1));
  course.Add(Window(35));
  EXPECT_EQ(course.points().back().step, 35u);
  EXPECT_EQ(course.from_step(), 15u);
  course.GoBackTo(0);
  EXPECT_THAT(course.points(), IsEmpty());
  EXPECT_EQ(course.from_step(), 0u);
}

TEST(JobCourseTest, RanksHaveTheirNewestWindows) {
  JobCourse course(0);
  for (uint64_t step = 1; step <= 100; ++step) {
    for (uint32_t rank = 0; rank < kRanksShownMax + 10; ++rank) course.Add(Report(rank, step));
    course.Add(Report(0, step));
  }
  EXPECT_THAT(course.ranks(), SizeIs(kRanksShownMax));
  const std::vector<RankWindow>& windows = course.ranks().at(0);
  ASSERT_THAT(windows, SizeIs(kRankWindowsMax));
  EXPECT_EQ(windows.back().end_step, 100u);
  EXPECT_EQ(windows.front().end_step, 41u);
  EXPECT_EQ(windows.back().waiting_share, 0.25);
  EXPECT_EQ(windows.back().samples_per_s, 40);
}

TEST(JobCourseTest, AReportThatMeasuredNoTimeIsLeftOut) {
  JobCourse course(0);
  proto::RankReport report = Report(0, 1);
  report.set_wall_s(0);
  course.Add(report);
  EXPECT_THAT(course.ranks(), IsEmpty());
}

}  // namespace
}  // namespace strata::cli

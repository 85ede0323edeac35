#include "cli/render/job_course.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace strata::cli {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

CoursePoint PointOf(const proto::MetricsRecord& record) {
  return {.step = record.step(),
          .elapsed_s = record.elapsed_s(),
          .loss = record.loss(),
          .samples_per_s = record.samples_per_s(),
          .waiting_share = record.waiting_share(),
          .hidden_share = record.has_hidden_share() ? record.hidden_share() : -1,
          .test_accuracy = record.has_test_accuracy() ? record.test_accuracy() : -1,
          .lr = record.lr(),
          .bytes_pushed = record.bytes_pushed(),
          .bytes_answered = record.bytes_answered(),
          .staleness = {record.staleness().begin(), record.staleness().end()}};
}

// The later of two neighbours, which stands for both: nothing that was counted or measured is lost.
void Join(const CoursePoint& earlier, CoursePoint* later) {
  if (later->test_accuracy < 0) later->test_accuracy = earlier.test_accuracy;
  if (std::isnan(later->loss)) {
    later->loss = earlier.loss;
    later->samples_per_s = earlier.samples_per_s;
    later->waiting_share = earlier.waiting_share;
    later->hidden_share = earlier.hidden_share;
  }
  later->bytes_pushed += earlier.bytes_pushed;
  later->bytes_answered += earlier.bytes_answered;
  later->staleness.resize(std::max(later->staleness.size(), earlier.staleness.size()));
  for (size_t i = 0; i < earlier.staleness.size(); ++i) {
    later->staleness[i] += earlier.staleness[i];
  }
}

}  // namespace

void JobCourse::Add(const proto::MetricsRecord& record) {
  if (record.samples() == 0) return AddMeasurement(record);
  if (record.step() <= shown_step_) return;
  shown_step_ = record.step();
  CoursePoint point = PointOf(record);
  if (!points_.empty() && in_last_ < stride_) {
    Join(points_.back(), &point);
    points_.back() = std::move(point);
    ++in_last_;
  } else {
    points_.push_back(std::move(point));
    in_last_ = 1;
  }
  if (points_.size() > kCoursePointsMax) Thin();
}

// The window of the measured weights is there already, or still to come.
void JobCourse::AddMeasurement(const proto::MetricsRecord& record) {
  if (!record.has_test_accuracy()) return;
  const auto at =
      std::lower_bound(points_.begin(), points_.end(), record.step(),
                       [](const CoursePoint& point, uint64_t step) { return point.step < step; });
  if (at != points_.end()) {
    at->test_accuracy = record.test_accuracy();
    return;
  }
  points_.push_back({.step = record.step(),
                     .elapsed_s = record.elapsed_s(),
                     .loss = kUnknown,
                     .samples_per_s = kUnknown,
                     .waiting_share = kUnknown,
                     .test_accuracy = record.test_accuracy(),
                     .lr = kUnknown});
  in_last_ = stride_;
  if (points_.size() > kCoursePointsMax) Thin();
}

// Two neighbours become one.
void JobCourse::Thin() {
  std::vector<CoursePoint> thinned;
  for (size_t i = 0; i < points_.size(); i += 2) {
    if (i + 1 < points_.size()) Join(points_[i], &points_[i + 1]);
    thinned.push_back(std::move(points_[std::min(i + 1, points_.size() - 1)]));
  }
  if (points_.size() % 2 == 0) in_last_ += stride_;
  points_ = std::move(thinned);
  stride_ *= 2;
}

void JobCourse::Add(const proto::RankReport& report) {
  if (report.samples() == 0 || report.wall_s() <= 0) return;
  if (!ranks_.contains(report.rank()) && ranks_.size() >= kRanksShownMax) return;
  std::vector<RankWindow>& windows = ranks_[report.rank()];
  if (!windows.empty() && report.end_step() <= windows.back().end_step) return;
  windows.push_back({.end_step = report.end_step(),
                     .waiting_share = std::clamp(report.wait_s() / report.wall_s(), 0.0, 1.0),
                     .samples_per_s = report.samples() / report.wall_s()});
  if (windows.size() > kRankWindowsMax) windows.erase(windows.begin());
}

void JobCourse::GoBackTo(uint64_t step) {
  std::erase_if(points_, [&](const CoursePoint& point) { return point.step > step; });
  for (auto& [rank, windows] : ranks_) {
    std::erase_if(windows, [&](const RankWindow& window) { return window.end_step > step; });
  }
  from_step_ = std::min(from_step_, step);
  shown_step_ = std::min(shown_step_, step);
  in_last_ = stride_;
}

}  // namespace strata::cli

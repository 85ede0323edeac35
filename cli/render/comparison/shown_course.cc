#include "cli/render/comparison/shown_course.h"

#include <cstdio>

#include "cli/render/comparison/compare_display.h"
#include "cli/render/progress.h"
#include "common/clock.h"

namespace strata::cli {

absl::StatusOr<std::vector<proto::RunRecord>> ShownCourse::Make(
    const std::vector<compare::RunPlan>& plans, compare::CampaignFolder* folder,
    const std::vector<compare::Runner*>& runners) {
  CompareDisplay display(stdout, TerminalColumns(), metric_);
  const RealClock clock;
  compare::Course course(
      plans, folder, runners, &clock,
      {.on_progress = [&](const auto& progress) { display.ShowProgress(progress); },
       .on_run = [&](const auto& progress,
                     const auto& record) { display.ShowEnd(progress, record); }});
  SetCourse(&course);
  auto records = course.Run();
  SetCourse(nullptr);
  display.End();
  done_ += course.done();
  return records;
}

void ShownCourse::SetCourse(compare::Course* course) {
  absl::MutexLock lock(&mutex_);
  course_ = course;
  if (stopped_ && course_ != nullptr) course_->Stop();
}

void ShownCourse::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
  if (course_ != nullptr) course_->Stop();
}

}  // namespace strata::cli

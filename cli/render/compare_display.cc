#include "cli/render/compare_display.h"

#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "cli/options/terminal.h"
#include "cli/render/progress.h"
#include "common/clock.h"
#include "compare/campaign/campaign_folder.h"

namespace strata::cli {

namespace {

std::string Which(const compare::CourseProgress& progress) {
  return absl::StrFormat("[%d/%d] %s, seed %d", progress.number, progress.runs, progress.plan->mode,
                         progress.plan->job.seed());
}

// Says how a run began that continues a shorter one, or should have.
std::string HowItBegan(const proto::RunRecord& record) {
  if (record.resumed_step() > 0) {
    return absl::StrFormat(", of which %d of %d steps were there", record.resumed_step(),
                           record.steps());
  }
  return record.began_anew().empty() ? "" : absl::StrCat("; it began anew: ", record.began_anew());
}

}  // namespace

std::string RunEndLine(const compare::CourseProgress& progress, const proto::RunRecord& made,
                       const compare::Metric& metric) {
  // A program may have measured something else, which is no failure of the run.
  const bool had_failed = !made.failure().empty();
  const proto::RunRecord record = had_failed ? made : compare::ByMetric(metric, made);
  if (had_failed) {
    return absl::StrCat(Which(progress), ": failed: ", record.failure(),
                        record.has_diverged() ? "" : " (the same command makes this run again)");
  }
  const std::string after =
      absl::StrFormat("after %.1f s%s", record.trained_s(), HowItBegan(record));
  if (!record.failure().empty()) {
    return absl::StrCat(Which(progress), ": finished ", after, "; ", record.failure());
  }
  if (record.measurements().empty()) return absl::StrCat(Which(progress), ": finished ", after);
  const double value = record.measurements().rbegin()->accuracy();
  const std::string text =
      metric.is_accuracy() ? absl::StrFormat("%.4f", value) : absl::StrFormat("%.4g", value);
  return absl::StrCat(Which(progress), ": ", metric.words(), " ", text, " ", after);
}

namespace {

// Runs that this call has made, with the parts of those under way.
double MadeOf(const compare::CourseProgress& progress) {
  return static_cast<double>(progress.made) + progress.run.done + progress.others_done;
}

}  // namespace

std::optional<double> SecondsLeft(const compare::CourseProgress& progress) {
  const double made = MadeOf(progress);
  if (made <= 0) return std::nullopt;
  return absl::ToDoubleSeconds(progress.elapsed) * (static_cast<double>(progress.to_make) - made) /
         made;
}

std::string CourseLine(const compare::CourseProgress& progress) {
  std::vector<std::string> parts = {Which(progress)};
  if (!progress.run.text.empty()) parts.push_back(progress.run.text);
  if (progress.others > 0) parts.push_back(absl::StrCat("+", progress.others, " at once"));
  const double made = MadeOf(progress);
  const auto to_make = static_cast<double>(progress.to_make);
  const auto runs = static_cast<double>(progress.runs);
  parts.push_back(absl::StrFormat("campaign %.0f %%", 100 * (runs - to_make + made) / runs));
  if (const std::optional<double> left_s = SecondsLeft(progress)) {
    parts.push_back(absl::StrCat("ETA ", FormatDuration(*left_s)));
  }
  return absl::StrJoin(parts, "  ");
}

std::string StragglerWords(const proto::Job& job) {
  std::vector<std::string> words;
  for (const proto::Delay& delay : job.debug().delays()) {
    std::vector<std::string> how;
    if (delay.slow() > 1) how.push_back(absl::StrFormat("takes %g times as long", delay.slow()));
    if (delay.delay_ms() > 0) {
      how.push_back(absl::StrCat(
          "stands still for ", delay.delay_ms(), " ms ",
          delay.jitter_ms() > 0 ? absl::StrCat("(", delay.jitter_ms(), " ms more or less) ") : "",
          "a step"));
    }
    if (how.empty()) continue;
    words.push_back(absl::StrCat("node ", delay.node(), " ", absl::StrJoin(how, " and ")));
  }
  return absl::StrJoin(words, "; ");
}

void CompareDisplay::ShowProgress(const compare::CourseProgress& progress) {
  line_.Show(CourseLine(progress));
}

void CompareDisplay::ShowEnd(const compare::CourseProgress& progress,
                             const proto::RunRecord& record) {
  End();
  PrintF(out_, "%s\n", RunEndLine(progress, record, metric_));
  std::fflush(out_);
}

absl::StatusOr<std::vector<proto::RunRecord>> ShownCourse::Make(
    const std::vector<compare::RunPlan>& plans, compare::CampaignFolder* folder,
    const std::vector<compare::Runner*>& runners, const OnRun& on_run) {
  if (absl::Status known = TakeThoseThere(plans, *folder); !known.ok()) return known;
  CompareDisplay display(stdout, TerminalColumns(), metric_);
  const RealClock clock;
  bool is_of_no_use = false;
  compare::Course course(
      plans, folder, runners, &clock,
      {.on_progress = [&](const auto& progress) { display.ShowProgress(progress); },
       .on_run =
           [&](const auto& progress, const auto& record) {
             display.ShowEnd(progress, record);
             if (on_run != nullptr) on_run(progress);
             TakeMetric(record);
             if (WhyOfNoUse().ok() || progress.made == progress.to_make) return;
             is_of_no_use = true;
             course.Stop();
           }});
  SetCourse(&course);
  auto records = course.Run();
  SetCourse(nullptr);
  display.End();
  done_ += course.done();
  if (is_of_no_use && !records.ok()) return WhyOfNoUse();
  return records;
}

absl::Status ShownCourse::TakeThoseThere(const std::vector<compare::RunPlan>& plans,
                                         const compare::CampaignFolder& folder) {
  size_t there = 0;
  for (const compare::RunPlan& plan : plans) {
    const absl::StatusOr<std::optional<proto::RunRecord>> record = folder.Load(plan);
    if (!record.ok()) return record.status();
    if (!record->has_value()) continue;
    ++there;
    TakeMetric(**record);
  }
  // All of them have a report of their own.
  if (there == plans.size() || WhyOfNoUse().ok()) return absl::OkStatus();
  done_ += there;
  return WhyOfNoUse();
}

void ShownCourse::TakeMetric(const proto::RunRecord& record) {
  if (!record.failure().empty()) return;
  const std::string why = compare::ByMetric(metric_, record).failure();
  has_metric_ = has_metric_ || why.empty();
  if (lacks_metric_.empty()) lacks_metric_ = why;
}

absl::Status ShownCourse::WhyOfNoUse() const {
  if (has_metric_ || lacks_metric_.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("no run so far is of use: ", lacks_metric_));
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

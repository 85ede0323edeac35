#ifndef STRATA_CLI_RENDER_COMPARE_DISPLAY_H_
#define STRATA_CLI_RENDER_COMPARE_DISPLAY_H_

#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "cli/render/progress.h"
#include "compare/analysis.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/campaign/course.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "proto/job.pb.h"

namespace strata::cli {

// "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s", or why it failed.
std::string RunEndLine(const compare::CourseProgress& progress, const proto::RunRecord& record,
                       const compare::Metric& metric = {});
// "[5/21] async, seed 2  step 300/1000  loss 0.5200  campaign 23 %  ETA 3:12"; the remaining time
// is unknown until part of a run is done.
std::string CourseLine(const compare::CourseProgress& progress);

// Returns the seconds that the missing runs are likely to take; none until part of a run is done.
std::optional<double> SecondsLeft(const compare::CourseProgress& progress);

// "node 1 takes 4 times as long; node 2 stands still for 30 ms (10 ms more or less) a step"; empty:
// no node is slowed down.
std::string StragglerWords(const proto::Job& job);

// The course of a comparison: a line per run, and on a terminal a live one.
//
// Threads: one.
class CompareDisplay {
 public:
  // `columns` is the width of the terminal behind `out`; 0: it is not a terminal.
  CompareDisplay(std::FILE* out, int columns, compare::Metric metric = {})
      : out_(out), line_(out, columns), metric_(std::move(metric)) {}

  void ShowProgress(const compare::CourseProgress& progress);
  void ShowEnd(const compare::CourseProgress& progress, const proto::RunRecord& record);
  // Removes the live line, so that later output has a row of its own.
  void End() { line_.Clear(); }

 private:
  std::FILE* out_;
  LiveLine line_;
  const compare::Metric metric_;
};

// Successive courses of runs, shown on standard output, which another thread may stop.
//
// Threads: Make and done one's; Stop any.
class ShownCourse {
 public:
  // `metric`: the value shown at a run's end.
  explicit ShownCourse(compare::Metric metric = {}) : metric_(std::move(metric)) {}

  // Makes the runs like compare::Course and returns their records in the order of the plans. All
  // arguments outlive the call. `on_run` gets the progress after each run, while nothing else of
  // the course runs. Errors besides the course's: FailedPrecondition: no run that has finished so
  // far has the metric, so that no other is made for nothing.
  using OnRun = std::function<void(const compare::CourseProgress&)>;
  absl::StatusOr<std::vector<proto::RunRecord>> Make(const std::vector<compare::RunPlan>& plans,
                                                     compare::CampaignFolder* folder,
                                                     const std::vector<compare::Runner*>& runners,
                                                     const OnRun& on_run = nullptr);
  // Makes Make end soon, even a later call.
  void Stop();
  // Existing runs, of all courses.
  size_t done() const { return done_; }

 private:
  void SetCourse(compare::Course* course);
  // Looks at the runs that exist. Errors: the folder's; FailedPrecondition as Make's.
  absl::Status TakeThoseThere(const std::vector<compare::RunPlan>& plans,
                              const compare::CampaignFolder& folder);
  // Notes whether a run has the metric.
  void TakeMetric(const proto::RunRecord& record);
  // OK: a run has the metric, or none has finished.
  absl::Status WhyOfNoUse() const;

  const compare::Metric metric_;
  bool has_metric_ = false;
  std::string lacks_metric_;  // why the first run that lacks it has failed so
  size_t done_ = 0;
  absl::Mutex mutex_;
  compare::Course* course_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_COMPARE_DISPLAY_H_

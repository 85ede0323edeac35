#ifndef STRATA_CLI_RENDER_COMPARISON_SHOWN_COURSE_H_
#define STRATA_CLI_RENDER_COMPARISON_SHOWN_COURSE_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/campaign/course.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "compare/statistics/metric.h"

namespace strata::cli {

// Courses of runs, one after the other, shown on standard output, that another thread may stop.
//
// Threads: Make and done one's; Stop any.
class ShownCourse {
 public:
  // `metric`: what of a run is shown at its end.
  explicit ShownCourse(compare::Metric metric = {}) : metric_(std::move(metric)) {}

  // Makes the runs as compare::Course does and returns their records in the order of the plans. All
  // arguments outlive the call.
  absl::StatusOr<std::vector<proto::RunRecord>> Make(const std::vector<compare::RunPlan>& plans,
                                                     compare::CampaignFolder* folder,
                                                     const std::vector<compare::Runner*>& runners);
  // Make ends soon, also one that begins later.
  void Stop();
  // Runs that are there, of all courses.
  size_t done() const { return done_; }

 private:
  void SetCourse(compare::Course* course);

  const compare::Metric metric_;
  size_t done_ = 0;
  absl::Mutex mutex_;
  compare::Course* course_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_COMPARISON_SHOWN_COURSE_H_

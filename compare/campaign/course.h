#ifndef STRATA_COMPARE_CAMPAIGN_COURSE_H_
#define STRATA_COMPARE_CAMPAIGN_COURSE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::compare {

// Where a campaign is in the course of a run.
struct CourseProgress {
  size_t runs = 0;     // in all
  size_t number = 0;   // of the run, from 1
  size_t made = 0;     // runs that this call has made
  size_t to_make = 0;  // in all of this call
  const RunPlan* plan = nullptr;
  RunProgress run;
  absl::Duration elapsed;  // since the first run of this call began
};

// The runs of a campaign, one after the other: those that are not there yet.
//
// Threads: Run is one's; Stop any.
class Course {
 public:
  struct Options {
    std::function<void(const CourseProgress&)> on_progress;  // may be null
    // Of a run that was made now; may be null.
    std::function<void(const CourseProgress&, const proto::RunRecord&)> on_run;
  };

  // `folder`, `runner` and `clock` outlive it. Where no run is missing the runner may be null.
  Course(std::vector<RunPlan> plans, CampaignFolder* folder, Runner* runner,
         const ClockInterface* clock, Options options);

  // Checks all runs that are missing before the first is made; a failed run is a result. Returns
  // the records of all, in their order. Errors: InvalidArgument (a run that cannot be), Cancelled
  // (by Stop), Unavailable (the cluster is gone), those of the folder; what is made by then stays.
  absl::StatusOr<std::vector<proto::RunRecord>> Run();
  // Run returns soon.
  void Stop();

  // Records that are there, before, during and after Run.
  size_t done() const { return done_; }

 private:
  const std::vector<RunPlan> plans_;
  CampaignFolder* folder_;
  Runner* runner_;
  const ClockInterface* clock_;
  const Options options_;
  std::atomic<bool> stopped_ = false;
  std::atomic<size_t> done_ = 0;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_COURSE_H_

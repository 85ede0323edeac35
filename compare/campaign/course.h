#ifndef STRATA_COMPARE_CAMPAIGN_COURSE_H_
#define STRATA_COMPARE_CAMPAIGN_COURSE_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::compare {

// How far a campaign is in the course of a run.
struct CourseProgress {
  size_t runs = 0;     // in all
  size_t number = 0;   // of the run, from 1
  size_t made = 0;     // runs that this call has made
  size_t to_make = 0;  // in all of this call
  const RunPlan* plan = nullptr;
  RunProgress run;
  size_t others = 0;       // runs under way besides this one
  double others_done = 0;  // their shares, summed
  absl::Duration elapsed;  // since the first run of this call began
};

// The runs of a campaign, in their order: those that are not there yet. As many at once as there
// are runners.
//
// Threads: Run is one's; Stop any. Callbacks come one at a time, from any thread.
class Course {
 public:
  struct Options {
    std::function<void(const CourseProgress&)> on_progress;  // may be null
    // The result of a run that was made now; may be null.
    std::function<void(const CourseProgress&, const proto::RunRecord&)> on_run;
  };

  // `folder`, `runners` and `clock` outlive it. Where no run is missing there may be no runner.
  Course(std::vector<RunPlan> plans, CampaignFolder* folder, std::vector<Runner*> runners,
         const ClockInterface* clock, Options options);

  // Checks all runs that are missing before the first is made; a failed run is a result. Returns
  // the records of all, in their order. Errors: InvalidArgument (a run that cannot be), Cancelled
  // (by Stop), Unavailable (the cluster is gone), those of the folder; the first of them ends the
  // other runs, too. What is made by then stays.
  absl::StatusOr<std::vector<proto::RunRecord>> Run();
  // Run returns soon.
  void Stop();

  // Records that are there, before, during and after Run.
  size_t done() const { return done_; }

 private:
  // How far the runs of this call are.
  struct State {
    std::vector<std::optional<proto::RunRecord>> records;
    std::vector<RunProgress> under_way;  // by runner
    std::vector<bool> is_busy;
    size_t next = 0;  // run to look at
    size_t made = 0, to_make = 0;
    absl::Time begin;
    absl::Status error;
  };

  // Loads the records that exist and checks the runs that are missing.
  absl::Status Load();
  // Makes runs by one runner until none is left or something is wrong.
  void RunBy(size_t runner);
  // Returns the plan of a run with checkpoints, continued where it was interrupted.
  RunPlan AsContinued(const RunPlan& plan);
  // The next run that is missing; nullopt: there is none, or no other is to begin.
  std::optional<size_t> Take(size_t runner);
  void ShowProgress(size_t runner, size_t run, const RunProgress& progress);
  // Returns whether to continue.
  bool Finish(size_t runner, size_t run, absl::StatusOr<proto::RunRecord> record);
  CourseProgress FindProgress(size_t runner, size_t run) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<RunPlan> plans_;
  CampaignFolder* folder_;
  const std::vector<Runner*> runners_;
  const ClockInterface* clock_;
  const Options options_;
  std::atomic<bool> stopped_ = false;
  std::atomic<size_t> done_ = 0;
  absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_COURSE_H_

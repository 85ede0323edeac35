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

// The progress of a campaign during a run.
struct CourseProgress {
  size_t runs = 0;     // in all
  size_t number = 0;   // of the run, from 1
  size_t made = 0;     // runs that this call has made
  size_t to_make = 0;  // in all of this call
  const RunPlan* plan = nullptr;
  RunProgress run;
  size_t others = 0;       // other runs in progress
  double others_done = 0;  // sum of their finished shares
  absl::Duration elapsed;  // since the first run of this call began
};

// The runs of a campaign, in order, except the existing ones. As many at once as there are runners.
//
// Threads: Run is one's; Stop any. Callbacks come one at a time, on any thread.
class Course {
 public:
  struct Options {
    std::function<void(const CourseProgress&)> on_progress;  // may be null
    // The result of a run that was made now; may be null.
    std::function<void(const CourseProgress&, const proto::RunRecord&)> on_run;
  };

  // `folder`, `runners` and `clock` outlive it. If no run is missing there may be no runner.
  Course(std::vector<RunPlan> plans, CampaignFolder* folder, std::vector<Runner*> runners,
         const ClockInterface* clock, Options options);

  // Checks all missing runs before the first is made; a failed run is a result. Returns the records
  // of all, in order. Errors, of which the first also ends the other runs: InvalidArgument (an
  // invalid run), Cancelled (by Stop), Unavailable (the cluster is gone), those of the folder. Runs
  // made by then stay.
  absl::StatusOr<std::vector<proto::RunRecord>> Run();
  // Makes Run return soon.
  void Stop();

  // Existing records, before, during and after Run.
  size_t done() const { return done_; }

 private:
  // The progress of this call's runs.
  struct State {
    std::vector<std::optional<proto::RunRecord>> records;
    std::vector<RunProgress> under_way;  // by runner
    std::vector<bool> is_busy;
    size_t next = 0;  // run to examine
    size_t made = 0, to_make = 0;
    absl::Time begin;
    absl::Status error;
  };

  // Loads the existing records and checks the missing runs.
  absl::Status Load();
  // Makes runs with one runner until none is left or there is an error.
  void RunBy(size_t runner);
  // Returns the plan of a run with checkpoints, continued from where it was interrupted.
  RunPlan AsContinued(const RunPlan& plan);
  // Takes the next missing run; nullopt: there is none, or no other must begin.
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

#ifndef STRATA_CLI_COMMANDS_SWEEP_RUN_H_
#define STRATA_CLI_COMMANDS_SWEEP_RUN_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/render/comparison/shown_course.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/runner.h"
#include "compare/statistics/metric.h"
#include "compare/sweep/going_on.h"
#include "compare/sweep/sweep_plan.h"
#include "compare/sweep/sweep_result.h"

namespace strata::cli {

// What `strata sweep` does once it is clear what to run where: the runs, rung by rung, shown on
// standard output, and the report. The runners are all that it knows of the cluster.
//
// Threads: Run one's; Stop any.
class SweepRun {
 public:
  struct Site {
    bool is_live = false;        // else in virtual time
    bool shares_folder = false;  // all hosts of the live cluster see the sweep's folder
  };
  // `folder` outlives it.
  SweepRun(compare::SweepPlan plan, compare::CampaignFolder* folder, compare::Metric metric,
           Site site);

  // Makes the runs that are missing, as many at once as there are runners, then the report. Returns
  // the exit status; what is wrong has been said, and how to go on.
  int Run(const std::vector<compare::Runner*>& runners);
  // Run ends soon, also one that begins later; the runs that are made stay.
  void Stop() { course_.Stop(); }

  // Whether no run is missing; then Run needs no runner. Errors as of CampaignFolder::Load.
  absl::StatusOr<bool> IsComplete() const;

 private:
  // Returns the runs of the rung that follows these.
  std::vector<size_t> PointsAfter(const std::vector<compare::RungRuns>& rungs) const;
  absl::StatusOr<compare::RungRuns> RunRung(size_t rung, std::vector<size_t> points,
                                            const std::vector<compare::Runner*>& runners);
  // The runs of a rung, with what they go on from: the rung before has been run.
  absl::StatusOr<std::vector<compare::RunPlan>> RunsOf(size_t rung,
                                                       const std::vector<size_t>& points) const;
  // Deletes checkpoints in the sweep's folder that no run goes on from any more.
  absl::Status DeleteCheckpoints(const std::vector<compare::RungRuns>& rungs);
  int Report(const std::vector<compare::RungRuns>& rungs);
  int PrintStopped(const absl::Status& why);

  const compare::SweepPlan plan_;
  compare::CampaignFolder* folder_;
  const compare::Metric metric_;
  const compare::EndsIn ends_;
  ShownCourse course_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_SWEEP_RUN_H_

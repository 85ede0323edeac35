#ifndef STRATA_CLI_COMMANDS_COMPARISON_H_
#define STRATA_CLI_COMMANDS_COMPARISON_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/render/comparison/shown_course.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "compare/statistics/metric.h"

namespace strata::cli {

// What `strata compare` does once it is clear what to run where: the runs, shown on standard
// output, and the report. The runner is all that it knows of the cluster.
//
// Threads: Run and WriteReport one's; Stop any.
class Comparison {
 public:
  struct Options {
    std::vector<compare::RunPlan> plans;  // in the order in which they are made
    // In place of `plans`: a campaign with points to tune, whose runs follow from that.
    std::optional<proto::Campaign> to_tune;
    compare::CampaignFolder* folder = nullptr;
    std::vector<std::string> modes;  // the first is the baseline; of `to_tune` those tuned
    std::optional<double> target_accuracy;
    double equivalence_margin = 0;
    compare::Metric metric;
  };

  explicit Comparison(Options options);

  // Makes the runs that are missing, then the report; where none is, `runner` may be null. Returns
  // the exit status; what is wrong has been said, and how to go on.
  int Run(compare::Runner* runner);
  // Run ends soon, also one that begins later; the runs that are made stay.
  void Stop() { course_.Stop(); }

  // Whether no run is missing. Errors as of CampaignFolder::Load.
  absl::StatusOr<bool> IsComplete() const;

 private:
  absl::StatusOr<std::vector<proto::RunRecord>> Make(const std::vector<compare::RunPlan>& plans,
                                                     compare::Runner* runner);
  // Tunes; plans and modes are known then.
  absl::Status Tune(compare::Runner* runner);
  int Report(std::vector<proto::RunRecord> records);
  int PrintStopped(const absl::Status& why);

  Options options_;
  std::string tuning_;  // in words
  size_t runs_ = 0;
  ShownCourse course_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_COMPARISON_H_

#ifndef STRATA_CLI_COMPARISON_H_
#define STRATA_CLI_COMPARISON_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "compare/campaign/campaign_folder.h"
#include "compare/campaign/course.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::cli {

// What `strata compare` does once it is clear what to run where: the runs, shown on standard
// output, and the report. The runner is all that it knows of the cluster.
//
// Threads: Run and WriteReport one's; Stop any.
class Comparison {
 public:
  struct Options {
    std::vector<compare::RunPlan> plans;  // in the order in which they are made
    compare::CampaignFolder* folder = nullptr;
    std::vector<std::string> modes;  // the first is the baseline
    std::optional<double> target_accuracy;
    double equivalence_margin = 0;
  };

  explicit Comparison(Options options);

  // Makes the runs that are missing, then the report; where none is, `runner` may be null. Returns
  // the exit status; what is wrong has been said, and how to go on.
  int Run(compare::Runner* runner);
  // Run ends soon, also one that begins later; the runs that are made stay.
  void Stop();

 private:
  int Report(std::vector<proto::RunRecord> records);
  int PrintStopped(const absl::Status& why, size_t done);

  const Options options_;
  absl::Mutex mutex_;
  compare::Course* course_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_COMPARISON_H_

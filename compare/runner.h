#ifndef STRATA_COMPARE_RUNNER_H_
#define STRATA_COMPARE_RUNNER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compare/run_record.pb.h"
#include "proto/job.pb.h"

namespace strata::compare {

// A run as a part of a longer one.
struct RunChain {
  // A longer run will continue this one: Run returns when its last checkpoint is written. A missing
  // one is not an error.
  bool is_gone_on_from = false;
  // Checkpoints for this purpose in a job without `checkpoint`; no `dir`: none.
  proto::Checkpoint checkpoint;
  // Record of the shorter run from whose `checkpoint_dir` this one continues; null: it starts from
  // the beginning. It also does so if it cannot continue, and its record says why.
  std::shared_ptr<const proto::RunRecord> earlier;
  // `earlier` is of this same run, which was interrupted: further checkpoints go into its folder.
  bool was_interrupted = false;
  // Called when a checkpoint is complete, with the record so far: a later run can continue from it.
  // May be null.
  std::function<void(const proto::RunRecord&)> keep;
};

// One job in one mode with one seed: `job` is complete, its mode, seed and evaluation are set and
// its defaults filled in. In virtual time there is no `chain`.
struct RunPlan {
  std::string mode;
  proto::Job job;
  RunChain chain = {};
};

struct RunProgress {
  double done = 0;   // share of the run, 0 to 1
  std::string text;  // "step 300/1000  loss 0.52", may be empty
};

// Runs jobs, one at a time: on a cluster, or in virtual time.
class Runner {
 public:
  using OnProgress = std::function<void(const RunProgress&)>;

  virtual ~Runner() = default;

  // Checks that it can run the job at all. Errors: InvalidArgument, one line that names the field.
  virtual absl::Status Check(const RunPlan& plan) = 0;
  // Blocks until the run has ended. A job that fails (a loss that is NaN, a rank that was killed)
  // is a record with `failure`. Errors: Unavailable (the cluster is gone), Cancelled (by Stop).
  virtual absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan, const OnProgress& progress) = 0;
  // Makes Run return soon; from any thread.
  virtual void Stop() = 0;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_RUNNER_H_

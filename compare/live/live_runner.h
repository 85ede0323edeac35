#ifndef STRATA_COMPARE_LIVE_LIVE_RUNNER_H_
#define STRATA_COMPARE_LIVE_LIVE_RUNNER_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"
#include "compare/live/run_log.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::compare {

// Runs jobs on a cluster that is there, through its coordinator. A run that goes on from a shorter
// one, by its `chain`, has the record of a whole run.
//
// Threads: as Runner.
class LiveRunner final : public Runner {
 public:
  struct Options {
    std::string cluster;   // in words, for the records
    std::string jobs_dir;  // parent of the jobs' run directories; empty: that of the workers
    // The job that a Stop interrupts is cancelled; not needed where the cluster ends, too.
    bool cancels = true;
    // How long a run whose end is gone on from is waited for after it: its checkpoint is written
    // meanwhile.
    absl::Duration checkpoint_wait = absl::Minutes(1);
  };

  // `client` was made with `reports`.
  LiveRunner(Options options, std::unique_ptr<control::CoordinatorClient> client);

  absl::Status Check(const RunPlan& plan) override;
  // A job of which reports were missed, because the coordinator was restarted, is run once more.
  // Errors besides: Unavailable, too, where somebody else has cancelled the job, or reports were
  // missed again.
  absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan, const OnProgress& progress) override;
  void Stop() override;

 private:
  struct Ended {
    proto::JobStatus status;
    RunLog log;
  };

  // Errors besides: DataLoss: reports were missed.
  absl::StatusOr<proto::RunRecord> RunOnce(const RunPlan& plan, const OnProgress& progress);
  // Submits the job, which goes on from the run of `from` unless that is null, and follows it.
  absl::StatusOr<Ended> RunJob(const RunPlan& plan, const proto::Job& job,
                               std::shared_ptr<const proto::RunRecord> from,
                               const OnProgress& progress);
  // The plan's job with folders of its own, others each time.
  proto::Job JobOf(const RunPlan& plan) const;
  // Returns once nothing more is to be expected of the checkpoints of the job, which has finished.
  // Why the cluster is at fault for the job's failure, if it is: a daemon of the job's is gone.
  absl::Status CheckDaemons(const proto::JobStatus& end);

  const Options options_;
  const std::unique_ptr<control::CoordinatorClient> client_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_LIVE_LIVE_RUNNER_H_

#ifndef STRATA_COMPARE_CAMPAIGN_LIVE_RUNNER_H_
#define STRATA_COMPARE_CAMPAIGN_LIVE_RUNNER_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/coordinator_client.h"
#include "common/ids.h"
#include "compare/campaign/run_log.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"

namespace strata::compare {

// Runs jobs on an existing cluster through its coordinator. A run that continues a shorter one (its
// `chain`) has the record of a whole run.
//
// Threads: as Runner.
class LiveRunner final : public Runner {
 public:
  struct Options {
    std::string cluster;   // in words, for the records
    std::string jobs_dir;  // parent of the jobs' run directories; empty: that of the workers
    // The job that a Stop interrupts is cancelled; unnecessary if the cluster ends, too.
    bool cancels = true;
    // After a run that another will continue: how long to wait until its last checkpoint is
    // written.
    absl::Duration checkpoint_wait = absl::Minutes(1);
  };

  // `client` was made with `reports`.
  LiveRunner(Options options, std::unique_ptr<control::CoordinatorClient> client);

  absl::Status Check(const RunPlan& plan) override;
  // A job with missed reports, because the coordinator was restarted, is run once more. Further
  // errors: Unavailable also if somebody else has cancelled the job, or reports were missed again.
  absl::StatusOr<proto::RunRecord> Run(const RunPlan& plan, const OnProgress& progress) override;
  void Stop() override;

 private:
  struct Ended {
    proto::JobStatus status;
    RunLog log;
  };

  // Further errors: DataLoss: reports were missed.
  absl::StatusOr<proto::RunRecord> RunOnce(const RunPlan& plan, const OnProgress& progress);
  // Submits the job and follows it. It continues the run of `from` unless that is null.
  absl::StatusOr<Ended> RunJob(const RunPlan& plan, const proto::Job& job,
                               std::shared_ptr<const proto::RunRecord> from,
                               const OnProgress& progress);
  // Returns the plan's job with folders of its own, different ones each time.
  proto::Job JobOf(const RunPlan& plan) const;
  // Returns an error if the cluster caused the job's failure: one of its daemons is gone.
  absl::Status CheckDaemons(const proto::JobStatus& end);

  const Options options_;
  const std::unique_ptr<control::CoordinatorClient> client_;
  std::atomic<bool> stopped_ = false;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_LIVE_RUNNER_H_

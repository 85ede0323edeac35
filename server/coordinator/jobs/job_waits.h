#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_WAITS_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_WAITS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/diagnosis/hang_watch.h"
#include "server/coordinator/diagnosis/job_activity.h"
#include "server/coordinator/diagnosis/stall_log.h"
#include "server/coordinator/diagnosis/wait_diagnosis.h"
#include "server/coordinator/jobs/job_stage.h"

namespace strata::server {

// Concludes who holds one running job up, and keeps what that follows from. Pure: time comes in
// with the calls.
class JobWaits {
 public:
  JobActivity& activity() { return activity_; }
  const JobActivity& activity() const { return activity_; }
  // The newest conclusion, the longest wait first.
  const std::vector<proto::Wait>& list() const { return waits_; }
  // The node that hangs, by the same conclusion.
  const std::optional<HungNode>& hung() const { return hung_; }
  // When ObserveStage first saw the stage that it saw last.
  absl::Time stage_since() const { return stage_since_; }

  void ObserveStage(JobStage stage, absl::Time now);
  // Concludes anew; returns the lines to log.
  std::vector<std::string> Update(const JobScene& scene, const proto::JobStatus& status,
                                  const DiagnosisTiming& timing, absl::Time now);
  // Does what Membership::Excuse does.
  void Excuse(absl::Duration gap, absl::Time now);

 private:
  JobActivity activity_;
  std::vector<proto::Wait> waits_;
  HangWatch hang_watch_;
  std::optional<HungNode> hung_;
  StallLog stall_log_;
  JobStage stage_seen_ = JobStage::kQueued;
  absl::Time stage_since_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_WAITS_H_

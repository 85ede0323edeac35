#include "server/coordinator/jobs/job_waits.h"

#include "server/coordinator/members/membership.h"

namespace strata::server {

void JobWaits::ObserveStage(JobStage stage, absl::Time now) {
  if (stage_seen_ == stage) return;
  stage_seen_ = stage;
  stage_since_ = now;
}

std::vector<std::string> JobWaits::Update(const JobScene& scene, const proto::JobStatus& status,
                                          const DiagnosisTiming& timing, absl::Time now) {
  waits_ = Diagnose(scene, now, timing);
  hang_watch_.Observe(scene, now);
  hung_ = hang_watch_.Find(scene, waits_, timing, now);
  return stall_log_.OnWaits(status, waits_, now);
}

void JobWaits::Excuse(absl::Duration gap, absl::Time now) {
  activity_.Excuse(gap, now);
  hang_watch_.Excuse(gap, now);
  stage_since_ = Excused(stage_since_, gap, now);
}

}  // namespace strata::server

#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_REPORTS_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_REPORTS_H_

#include <string>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/wait_diagnosis.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {

// Takes in what daemons report of a job: its metrics, counters, activity and memory; and concludes
// from that who holds it up. Owns nothing: what was reported is the entry's.
class JobReports {
 public:
  // `membership` and `announcer` outlive it.
  JobReports(DiagnosisTiming timing, const Membership* membership, JobAnnouncer* announcer)
      : timing_(timing), membership_(membership), announcer_(announcer) {}

  // Each method leaves a report alone that speaks of what the daemon does not have of the job.
  void OnRankReport(const std::string& daemon, const proto::RankReport& report, JobEntry* entry,
                    absl::Time now);
  void OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                      JobEntry* entry, absl::Time now);
  void OnCounters(const std::string& daemon, const proto::JobCounters& counters, JobEntry* entry,
                  absl::Time now);
  // Take in what a shard or a node holds of the daemon's memory.
  void OnShardMemory(const std::string& daemon, const proto::JobCounters& counters,
                     JobEntry* entry);
  void OnNodeMemory(const std::string& daemon, const proto::NodeActivity& activity,
                    JobEntry* entry);

  // Updates who holds the job up. REQUIRES: entry->running().
  void UpdateWaits(JobEntry* entry, absl::Time now);

 private:
  const DiagnosisTiming timing_;
  const Membership* const membership_;
  JobAnnouncer* const announcer_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_REPORTS_H_

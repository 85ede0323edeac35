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

// Takes in daemons' reports about a job (metrics, counters, activity and memory) and concludes who
// blocks it. Owns nothing: the reports are kept in the entry.
class JobReports {
 public:
  // `membership` and `announcer` outlive it.
  JobReports(DiagnosisTiming timing, const Membership* membership, JobAnnouncer* announcer)
      : timing_(timing), membership_(membership), announcer_(announcer) {}

  // Each method ignores reports about parts of the job that the daemon does not have.
  void OnRankReport(const std::string& daemon, const proto::RankReport& report, JobEntry* entry,
                    absl::Time now);
  void OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                      JobEntry* entry, absl::Time now);
  void OnCounters(const std::string& daemon, const proto::JobCounters& counters, JobEntry* entry,
                  absl::Time now);
  // Record the memory that a shard or a node uses on the daemon.
  void OnShardMemory(const std::string& daemon, const proto::JobCounters& counters,
                     JobEntry* entry);
  void OnNodeMemory(const std::string& daemon, const proto::NodeActivity& activity,
                    JobEntry* entry);

  // Updates who blocks the job. REQUIRES: entry->running().
  void UpdateWaits(JobEntry* entry, absl::Time now);

 private:
  const DiagnosisTiming timing_;
  const Membership* const membership_;
  JobAnnouncer* const announcer_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_REPORTS_H_

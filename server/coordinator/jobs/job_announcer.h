#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_ANNOUNCER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_ANNOUNCER_H_

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_actions.h"
#include "server/coordinator/jobs/job_entry.h"

namespace strata::server {

// Reports jobs to followers and the store, and retries: states that the store refused, news that
// followers have not seen, and records that a lost connection may have dropped. Owns these three,
// by job.
class JobAnnouncer {
 public:
  // Keeps the newest `records_max` records of each job. `commands` and `actions` outlive it.
  JobAnnouncer(size_t records_max, DaemonCommands* commands, JobActions* actions)
      : records_max_(records_max), commands_(commands), actions_(actions) {}

  // Saves the job; on failure, SaveAgain retries. Errors: the store's.
  absl::Status Save(const JobEntry& entry);
  // Saves the job if the store refused its newest state.
  void SaveAgain(const JobEntry& entry);

  // Refreshes the status and sends it to followers.
  void TellStatus(JobEntry* entry);
  // Sets the status's reason and announces it, unless it is unchanged.
  void SetReason(const std::string& reason, JobEntry* entry);
  // Followers get the job's progress with the next TellNews.
  void AddNews(JobId job) { announced_[job].has_news = true; }
  void TellNews(JobEntry* entry);
  void TellReport(JobId job, const proto::RankReport& report);

  // Sends the records to followers and to the worker of the first node, and keeps them.
  void TellRecords(const std::vector<proto::MetricsRecord>& records, JobEntry* entry);
  // Resends the kept records to the worker of the first node; it drops those that it has.
  void SendRecordsAgain(const JobEntry& entry);
  void DropRecords(JobId job) { announced_[job].records.clear(); }

  void Warn(const std::string& line) { actions_->Warn(line); }
  // The job is deleted, also from the store.
  void Forget(JobId job);

 private:
  struct Announced {
    bool is_unsaved = false;                   // the store refused the newest state
    bool has_news = false;                     // progress that followers have not seen
    std::deque<proto::MetricsRecord> records;  // oldest first
  };

  const size_t records_max_;
  DaemonCommands* const commands_;
  JobActions* const actions_;
  std::map<JobId, Announced> announced_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ANNOUNCER_H_

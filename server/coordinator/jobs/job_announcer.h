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

// Tells followers and the store of jobs, and tells again: a state that the store has
// refused, news that followers have not seen, and records that a break may have lost. Owns these
// three, by job.
class JobAnnouncer {
 public:
  // The newest `records_max` records of each job are kept. `commands` and `actions` outlive it.
  JobAnnouncer(size_t records_max, DaemonCommands* commands, JobActions* actions)
      : records_max_(records_max), commands_(commands), actions_(actions) {}

  // Saves the job; where that fails, SaveAgain repeats it. Errors: the store's.
  absl::Status Save(const JobEntry& entry);
  // Saves the job if the store has refused its newest state.
  void SaveAgain(const JobEntry& entry);

  // Brings the status up to date and tells it to followers.
  void TellStatus(JobEntry* entry);
  // Gives the job's status a reason and tells it, unless it is the same.
  void SetReason(const std::string& reason, JobEntry* entry);
  // Followers are to see the job's progress with the next TellNews.
  void AddNews(JobId job) { announced_[job].has_news = true; }
  void TellNews(JobEntry* entry);
  void TellReport(JobId job, const proto::RankReport& report);

  // Tells followers and the worker of the first node the records, and keeps them.
  void TellRecords(const std::vector<proto::MetricsRecord>& records, JobEntry* entry);
  // Sends the worker of the first node the records that are kept; it drops those that it has.
  void SendRecordsAgain(const JobEntry& entry);
  void DropRecords(JobId job) { announced_[job].records.clear(); }

  void Warn(const std::string& line) { actions_->Warn(line); }
  // The job is forgotten, by the store too.
  void Forget(JobId job);

 private:
  struct Announced {
    bool is_unsaved = false;                   // the store has refused the newest state
    bool has_news = false;                     // progress that followers have not seen
    std::deque<proto::MetricsRecord> records;  // the oldest first
  };

  const size_t records_max_;
  DaemonCommands* const commands_;
  JobActions* const actions_;
  std::map<JobId, Announced> announced_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ANNOUNCER_H_

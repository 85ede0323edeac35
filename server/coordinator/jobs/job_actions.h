#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIONS_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIONS_H_

#include <string>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/log.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/checkpoint_work.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {

// Outside effects of jobs. The job table calls these methods in order; they must not call back into
// it.
class JobActions {
 public:
  virtual ~JobActions() = default;
  // Does nothing if the connection has ended.
  virtual void Send(SessionId session, const proto::CoordinatorMessage& message) = 0;
  // Returns once the job is on disk. Errors: the store's.
  virtual absl::Status Persist(const proto::StoredJob& job) = 0;
  virtual void Forget(JobId job) = 0;
  // Sends the event to the job's followers.
  virtual void Notify(JobId job, const proto::FollowEvent& event) = 0;
  // Searches the store on another thread; the result comes back through
  // JobTable::OnCheckpointFound.
  virtual void FindCheckpoint(const CheckpointQuery& query) = 0;
  // Writes the manifest on another thread; the result comes back through
  // JobTable::OnCheckpointKept.
  virtual void KeepCheckpoint(const CheckpointToKeep& checkpoint) = 0;
  // Logs who blocks a job.
  virtual void Warn(const std::string& line) { Log(LogLevel::kWarning, line); }
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIONS_H_

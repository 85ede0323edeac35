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

// Effects of jobs outside the core. The methods are called from within the job
// table's, in order, and must not call back into it.
class JobActions {
 public:
  virtual ~JobActions() = default;
  // Nothing happens when the connection has ended.
  virtual void Send(SessionId session, const proto::CoordinatorMessage& message) = 0;
  // Returns once the job is on disk. Errors: the store's.
  virtual absl::Status Persist(const proto::StoredJob& job) = 0;
  virtual void Forget(JobId job) = 0;
  // Tells whoever follows the job.
  virtual void Notify(JobId job, const proto::FollowEvent& event) = 0;
  // Looks into the store on another thread; what it finds comes back by
  // JobTable::OnCheckpointFound.
  virtual void FindCheckpoint(const CheckpointQuery& query) = 0;
  // Writes the manifest on another thread; how that went comes back by JobTable::OnCheckpointKept.
  virtual void KeepCheckpoint(const CheckpointToKeep& checkpoint) = 0;
  // Writes to the log who holds a job up.
  virtual void Warn(const std::string& line) { Log(LogLevel::kWarning, line); }
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_ACTIONS_H_

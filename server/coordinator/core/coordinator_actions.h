#ifndef STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_ACTIONS_H_
#define STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_ACTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/log.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/members/seen_registrations.h"

namespace strata::server {

// What the coordinator's core wants done. Called from within the core's methods, in order; must not
// call back into it.
class CoordinatorActions {
 public:
  virtual ~CoordinatorActions() = default;
  // Nothing happens when the connection has ended.
  virtual void Send(SessionId session, const proto::CoordinatorMessage& message) = 0;
  // Ends the connection once what was sent before has gone out.
  virtual void Close(SessionId session) = 0;
  // Returns once the job is on disk. Errors: of the store.
  virtual absl::Status Persist(const proto::StoredJob& job) = 0;
  virtual void Forget(JobId job) = 0;
  // Several times a second, what has changed; a failed one is repeated.
  virtual absl::Status PersistSeen(const std::vector<SeenRegistrations::Entry>&) {
    return absl::OkStatus();
  }
  // To whoever follows the job.
  virtual void Notify(JobId job, const proto::FollowEvent& event) = 0;
  // For the log: who holds a job up.
  virtual void Warn(const std::string& line) { Log(LogLevel::kWarning, line); }
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_ACTIONS_H_

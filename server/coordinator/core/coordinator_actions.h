#ifndef STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_ACTIONS_H_
#define STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_ACTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/coordinator/jobs/job_actions.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/members/seen_registrations.h"

namespace strata::server {

// What the coordinator's core wants done: for jobs, and for daemons. The methods are called from
// within the core's, in order, and must not call back into it.
class CoordinatorActions : public JobActions {
 public:
  // Ends the connection once what was sent before has gone out.
  virtual void Close(SessionId session) = 0;
  // A server has joined: whether its ports can be reached from here is to be known when it is away.
  virtual void LearnPorts(const Daemon& /*server*/) {}
  // The connection of a server has ended: whether its process has, too, its ports show. Answer with
  // CoordinatorCore::OnServerEnded if they could be reached and nobody listens there any more; else
  // not at all.
  virtual void WatchPorts(const Daemon& /*server*/) {}
  // Called several times a second with what has changed; a failed one is repeated.
  virtual absl::Status PersistSeen(const std::vector<SeenRegistrations::Entry>&) {
    return absl::OkStatus();
  }
  // Returns once the names of all daemons that are out of service are on disk. Errors: the store's.
  virtual absl::Status PersistDraining(const std::vector<std::string>& /*daemons*/) {
    return absl::OkStatus();
  }
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_CORE_COORDINATOR_ACTIONS_H_

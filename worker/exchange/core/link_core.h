#ifndef STRATA_WORKER_EXCHANGE_CORE_LINK_CORE_H_
#define STRATA_WORKER_EXCHANGE_CORE_LINK_CORE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/link/link.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "worker/exchange/core/core_actions.h"

namespace strata::worker {

// Something that speaks over links: events in, actions out; time comes with the events. A pure
// state machine. Errors end the job and name the peer's address; what is in the actions then is
// still to be done.
class LinkCore {
 public:
  virtual ~LinkCore() = default;

  virtual absl::Status Start(absl::Time now, CoreActions* actions) = 0;
  virtual absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                               absl::Time now, CoreActions* actions) = 0;
  virtual absl::Status OnTime(absl::Time now, WireActions* actions) = 0;
  virtual absl::Time deadline() const = 0;

  virtual void OnConnected(LinkId link, transport::ConnectionId connection, absl::Time now,
                           WireActions* actions) = 0;
  virtual void OnConnectFailed(LinkId link, const absl::Status& why, absl::Time now,
                               WireActions* actions) = 0;
  // Events of connections that are no longer in use are ignored.
  virtual void OnLost(transport::ConnectionId connection, const absl::Status& why, absl::Time now,
                      WireActions* actions) = 0;
  // The endpoint's queue to the peer was full: the frame was not taken.
  virtual void OnSendQueueFull(const WireAction& send, absl::Time now) = 0;
  // The address that kConnect is to go to.
  virtual const std::string& address(LinkId link) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_LINK_CORE_H_

#ifndef STRATA_SERVER_SHARD_FRAMES_CONNECTION_SLOT_H_
#define STRATA_SERVER_SHARD_FRAMES_CONNECTION_SLOT_H_

#include <optional>
#include <vector>

#include "common/transport/endpoint.h"

namespace strata::server {

// One of the connections that a node has by the job, and who says to be it. Answers go to all of
// those: a HELLO that somebody has captured and sends again, or one that was slow and comes over a
// connection that the node has given up, does not turn them away from the node itself, and a node
// that comes back before its former connection is known to be lost gets them at once.
//
// Threads: one.
class ConnectionSlot {
 public:
  // The connection says HELLO, or brings any other frame that is taken. Of more than a few, the one
  // that was silent for longest goes; the proven one stays.
  void Join(transport::ConnectionId connection);
  void Leave(transport::ConnectionId connection);
  // It brought what only the node itself can: a push that it had not pushed before.
  // REQUIRES: it is here.
  void Prove(transport::ConnectionId connection);

  // Those that are here; the one that spoke last stands at the end.
  const std::vector<transport::ConnectionId>& connections() const { return connections_; }

 private:
  std::vector<transport::ConnectionId> connections_;
  std::optional<transport::ConnectionId> proven_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAMES_CONNECTION_SLOT_H_

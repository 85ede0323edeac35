#ifndef STRATA_SERVER_SHARD_NODE_CONNECTIONS_H_
#define STRATA_SERVER_SHARD_NODE_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
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

  // The connections that are here; the one that spoke last comes last.
  const std::vector<transport::ConnectionId>& connections() const { return connections_; }

 private:
  std::vector<transport::ConnectionId> connections_;
  std::optional<transport::ConnectionId> proven_;
};

// The content of a connection's HELLO.
struct Binding {
  size_t node = 0;
  uint32_t slot = 0;  // which of the node's connections it is
  uint32_t incarnation = 0;
};

// The connections of one job's nodes to one shard.
//
// Threads: one.
class NodeConnections {
 public:
  // Each node has `slots` connections.
  NodeConnections(size_t nodes, uint32_t slots);

  // Returns null if no HELLO has bound it to this job.
  const Binding* Find(transport::ConnectionId connection) const;
  // The newest incarnation of the node that said HELLO; all its slots' connections are of that one.
  uint32_t incarnation(size_t node) const { return nodes_[node].incarnation; }
  // Returns who gets the answers of that slot, who spoke last at the end.
  const std::vector<transport::ConnectionId>& InSlot(size_t node, uint32_t slot) const {
    return nodes_[node].slots[slot].connections();
  }
  // Returns whether somebody is in each of the node's slots.
  bool IsConnected(size_t node) const;
  // Returns all that are bound, in order.
  std::vector<transport::ConnectionId> All() const;

  // The connection's HELLO is accepted.
  void Bind(transport::ConnectionId connection, const Binding& binding);
  // A frame of the connection is accepted: it gets the answers of its slot.
  void OnAccepted(transport::ConnectionId connection, const Binding& binding);
  // The connection has brought what only the node itself can: a push that is new.
  void OnNewPush(transport::ConnectionId connection, const Binding& binding);
  void OnDisconnected(transport::ConnectionId connection);

 private:
  struct Node {
    uint32_t incarnation = 0;
    std::vector<ConnectionSlot> slots;
  };

  const uint32_t slots_;
  std::vector<Node> nodes_;
  absl::flat_hash_map<transport::ConnectionId, Binding> bindings_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_NODE_CONNECTIONS_H_

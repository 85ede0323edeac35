#ifndef STRATA_SERVER_SHARD_NODE_CONNECTIONS_H_
#define STRATA_SERVER_SHARD_NODE_CONNECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/transport/endpoint.h"

namespace strata::server {

// The claimants of one of a node's connections. Answers go to all of them. So neither a replayed
// HELLO, nor a slow one on a connection that the node has given up, diverts answers from the node
// itself, and a node that reconnects before its former connection is known to be lost gets them at
// once.
//
// Threads: one.
class ConnectionSlot {
 public:
  // The connection sends HELLO, or any other valid frame. If there are too many, the one that was
  // silent for longest is removed; the proven one stays.
  void Join(transport::ConnectionId connection);
  void Leave(transport::ConnectionId connection);
  // It sent what only the node itself can: a push that is new.
  // REQUIRES: it is in the slot.
  void Prove(transport::ConnectionId connection);

  // The connections in the slot, in order of their last frames.
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
  // The newest incarnation of the node that sent HELLO; all its slots' connections belong to that
  // one.
  uint32_t incarnation(size_t node) const { return nodes_[node].incarnation; }
  // Returns the connections that get the answers of that slot, in order of their last frames.
  const std::vector<transport::ConnectionId>& InSlot(size_t node, uint32_t slot) const {
    return nodes_[node].slots[slot].connections();
  }
  // Returns whether each of the node's slots has a connection.
  bool IsConnected(size_t node) const;
  // Returns all bound connections, in order.
  std::vector<transport::ConnectionId> All() const;

  // The connection's HELLO is accepted.
  void Bind(transport::ConnectionId connection, const Binding& binding);
  // A frame of the connection is accepted: it gets the answers of its slot.
  void OnAccepted(transport::ConnectionId connection, const Binding& binding);
  // The connection sent what only the node itself can: a push that is new.
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

#include "server/shard/node_connections.h"

#include <algorithm>

#include "common/require.h"

namespace strata::server {

NodeConnections::NodeConnections(size_t nodes, uint32_t slots)
    : slots_(slots), nodes_(nodes, Node{.slots = std::vector<ConnectionSlot>(slots)}) {}

const Binding* NodeConnections::Find(transport::ConnectionId connection) const {
  const auto found = bindings_.find(connection);
  return found == bindings_.end() ? nullptr : &found->second;
}

bool NodeConnections::IsConnected(size_t node) const {
  const std::vector<ConnectionSlot>& slots = nodes_[node].slots;
  return std::none_of(slots.begin(), slots.end(),
                      [](const ConnectionSlot& slot) { return slot.connections().empty(); });
}

std::vector<transport::ConnectionId> NodeConnections::All() const {
  std::vector<transport::ConnectionId> connections;
  for (const auto& [connection, binding] : bindings_) connections.push_back(connection);
  std::sort(connections.begin(), connections.end());
  return connections;
}

void NodeConnections::Bind(transport::ConnectionId connection, const Binding& binding) {
  Node& node = nodes_[binding.node];
  if (binding.incarnation != node.incarnation) {
    node = {.incarnation = binding.incarnation, .slots = std::vector<ConnectionSlot>(slots_)};
  }
  bindings_[connection] = binding;
  OnAccepted(connection, binding);
}

void NodeConnections::OnAccepted(transport::ConnectionId connection, const Binding& binding) {
  nodes_[binding.node].slots[binding.slot].Join(connection);
}

void NodeConnections::OnNewPush(transport::ConnectionId connection, const Binding& binding) {
  nodes_[binding.node].slots[binding.slot].Prove(connection);
}

void NodeConnections::OnDisconnected(transport::ConnectionId connection) {
  const auto found = bindings_.find(connection);
  if (found == bindings_.end()) return;
  nodes_[found->second.node].slots[found->second.slot].Leave(connection);
  bindings_.erase(found);
}

namespace {

// The node's own, one that is lost but not yet known to be, and strangers'.
constexpr size_t kConnectionsMax = 4;

}  // namespace

void ConnectionSlot::Join(transport::ConnectionId connection) {
  if (!connections_.empty() && connections_.back() == connection) return;
  std::erase(connections_, connection);
  if (connections_.size() == kConnectionsMax) {
    connections_.erase(std::find_if(connections_.begin(), connections_.end(),
                                    [&](transport::ConnectionId kept) { return kept != proven_; }));
  }
  connections_.push_back(connection);
}

void ConnectionSlot::Leave(transport::ConnectionId connection) {
  std::erase(connections_, connection);
  if (proven_ == connection) proven_.reset();
}

void ConnectionSlot::Prove(transport::ConnectionId connection) {
  // It has just joined.
  STRATA_REQUIRE(!connections_.empty() && connections_.back() == connection);
  proven_ = connection;
}

}  // namespace strata::server

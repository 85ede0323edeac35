#include "server/shard/frames/node_connections.h"

#include <algorithm>

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

}  // namespace strata::server

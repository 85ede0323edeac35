#include "server/shard/frames/node_line.h"

#include <algorithm>

namespace strata::server {
namespace {

// The node's own, one that is lost but not yet known to be, and strangers'.
constexpr size_t kConnectionsMax = 4;

}  // namespace

void NodeLine::Join(transport::ConnectionId connection) {
  if (!connections_.empty() && connections_.back() == connection) return;
  std::erase(connections_, connection);
  if (connections_.size() == kConnectionsMax) {
    connections_.erase(std::find_if(connections_.begin(), connections_.end(),
                                    [&](transport::ConnectionId kept) { return kept != proven_; }));
  }
  connections_.push_back(connection);
}

void NodeLine::Leave(transport::ConnectionId connection) {
  std::erase(connections_, connection);
  if (proven_ == connection) proven_.reset();
}

bool IsConnected(const std::vector<NodeLine>& lines) {
  return std::none_of(lines.begin(), lines.end(),
                      [](const NodeLine& line) { return line.connections().empty(); });
}

}  // namespace strata::server

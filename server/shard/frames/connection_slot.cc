#include "server/shard/frames/connection_slot.h"

#include <algorithm>

#include "common/require.h"

namespace strata::server {
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

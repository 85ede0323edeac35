// The part of AllReduceCore that sees to its connections.
#include <utility>

#include "common/job/job.h"
#include "worker/exchange/all_reduce/all_reduce_core.h"

namespace strata::worker {

using wire::Op;

void AllReduceCore::OnConnected(LinkId link, transport::ConnectionId connection, absl::Time now,
                                WireActions* actions) {
  peers_[link.value()].link.OnConnected(connection, now, actions);
}

void AllReduceCore::OnConnectFailed(LinkId link, const absl::Status& why, absl::Time now,
                                    WireActions* actions) {
  peers_[link.value()].link.OnLost(why, now, actions);
}

void AllReduceCore::OnLost(transport::ConnectionId connection, const absl::Status& why,
                           absl::Time now, WireActions* actions) {
  if (Peer* peer = Find(connection)) peer->link.OnLost(why, now, actions);
}

void AllReduceCore::OnSendQueueFull(const WireAction& send, absl::Time now) {
  if (Peer* peer = Find(send.connection)) peer->link.OnSendQueueFull(now);
}

// The first frame of a connection that somebody made, or another HELLO.
absl::Status AllReduceCore::OnStranger(transport::ConnectionId connection, const wire::Frame& frame,
                                       absl::Time now, CoreActions* actions) {
  const LinkIdentity self = MakeIdentity(options_);
  uint32_t number = 0;
  wire::ErrorCode error = CheckPeerHello(self, frame, &number);
  if (error == wire::ErrorCode::kNone) {
    error = wire::ErrorCode::kWrongRole;
    for (Peer& peer : peers_) {
      if (peer.link.options().peer != frame.header.node || peer.link.options().connects) continue;
      error = wire::ErrorCode::kWrongConnection;
      if (peer.link.options().identity.hello.connection != number) continue;
      // Else the end of one connection would be the end of several links, and be told to one.
      const Peer* bound = Find(connection);
      if (bound != nullptr && bound != &peer) break;
      return Fail(peer.link.OnHello(connection, frame.header, now, &actions->wire), false,
                  &actions->wire);
    }
  }
  // Where rings form anew nodes learn of it one after the other: the peer tries again.
  const bool comes_again = error == wire::ErrorCode::kWrongView && DropsLost(options_.record.job());
  if (!comes_again) ++refused_;
  actions->wire.push_back(
      {.kind = WireAction::Kind::kSend,
       .link = LinkId(),
       .connection = connection,
       .frame = MakeRefusal(self, comes_again ? Op::kRetry : Op::kError, error)});
  return absl::OkStatus();
}

void AllReduceCore::Close(WireActions* actions) {
  for (Peer& peer : peers_) peer.link.Close(actions);
}

void AllReduceCore::AddActivity(absl::Time now, proto::NodeActivity* activity) const {
  activity->set_refused(activity->refused() + refused_);
  for (size_t first = 0; first < peers_.size(); first += connections_) {
    const PeerLink& link = peers_[first].link;
    if (!link.options().connects) continue;  // its other end tells
    LinkActivity sum = link.Activity(now);
    for (size_t i = 1; i < connections_; ++i) sum.Add(peers_[first + i].link.Activity(now));
    proto::ShardActivity* out = activity->add_shards();
    out->set_address(link.options().address);
    out->set_connected(sum.connected);
    out->set_oldest_ms(absl::ToInt64Milliseconds(sum.down_for));
    out->set_error(sum.error);
  }
}

}  // namespace strata::worker

#ifndef STRATA_COMMON_LINK_RECONNECTOR_H_
#define STRATA_COMMON_LINK_RECONNECTOR_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/link/link.h"
#include "common/transport/endpoint.h"

namespace strata {

// Keeps a link's connection: makes one, gives it up if nobody confirms HELLO in time, makes the
// next one with backoff, and gives the peer up after too long without one. What is said on the
// connection, HELLO included, is its owner's business.
//
// A pure state machine: time comes with the events, connections go out as actions.
class Reconnector {
 public:
  // kConnects: asks for connections. kIsConnectedTo: the peer makes them (Adopt).
  enum class Role { kConnects, kIsConnectedTo };

  // `unreachable` begins the error when the peer is given up: "server tcp://10.0.0.1:4000 could not
  // be reached".
  Reconnector(LinkId link, const LinkTiming& timing, Role role, std::string unreachable)
      : link_(link),
        timing_(timing),
        role_(role),
        unreachable_(std::move(unreachable)),
        backoff_(timing.backoff_min) {}

  // Once, first.
  void Start(absl::Time now, WireActions* actions);
  // The connection was made: the owner says HELLO on it.
  void OnConnected(transport::ConnectionId connection, absl::Time now);
  // The peer has confirmed HELLO, or been confirmed: the link is up, and who is there is admitted.
  void OnGreeted(WireActions* actions);
  // The connection is one that the peer made, whose HELLO was checked. Another one that there may
  // be is closed.
  void Adopt(transport::ConnectionId connection, WireActions* actions);
  // The connection is gone, could not be made, is given up (why: OK leaves the last cause), or
  // carried something unreadable. Closes it and plans the next one.
  void OnLost(const absl::Status& why, absl::Time now, WireActions* actions);
  void Close(WireActions* actions);
  // The peer may be gone for good from now on: OnTime knows no error any more.
  void NeverGiveUp() { gives_up_ = false; }

  // Does what is due. Errors: Unavailable (no connection for too long): "... could not be reached
  // for 30s (why the last one was lost)".
  absl::Status OnTime(absl::Time now, WireActions* actions);
  // When OnTime has something to do next; infinity while the link is up.
  absl::Time deadline() const;

  bool is_up() const { return state_ == State::kUp; }
  // HELLO has been said and is not confirmed yet.
  bool is_greeting() const { return state_ == State::kGreeting; }
  // REQUIRES: there is one, as while the link is up or greeting.
  transport::ConnectionId connection() const;
  // The connection that there is, also one that greets.
  std::optional<transport::ConnectionId> open() const { return connection_; }
  bool Owns(transport::ConnectionId connection) const { return connection_ == connection; }
  // Since when the link is not up; infinity while it is.
  absl::Time down_since() const { return down_since_; }
  // Sets `connected`, and for a link that is not up `down_for` and `error`. REQUIRES: started.
  void Describe(absl::Time now, LinkActivity* activity) const;

 private:
  enum class State { kIdle, kConnecting, kGreeting, kUp };

  void Connect(WireActions* actions);

  LinkId link_;
  LinkTiming timing_;
  Role role_;
  std::string unreachable_;
  State state_ = State::kIdle;
  std::optional<transport::ConnectionId> connection_;
  absl::Time state_due_ = absl::InfiniteFuture();  // kIdle: connect; kGreeting: give this one up
  absl::Time down_since_ = absl::InfiniteFuture();
  absl::Duration backoff_;  // before the next connection
  absl::Status last_loss_;
  bool gives_up_ = true;
};

}  // namespace strata

#endif  // STRATA_COMMON_LINK_RECONNECTOR_H_

#ifndef STRATA_COMMON_TRANSPORT_LINK_H_
#define STRATA_COMMON_TRANSPORT_LINK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata {

// A link: a core's lasting relation to one peer (a shard, another node) over connections that come
// and go.

// Names a link of one core: an index whose meaning only that core knows.
using LinkId = Id<struct LinkIdTag, uint32_t>;

// An action that a protocol core requests for its connections; a list of them is performed in
// order.
struct WireAction {
  enum class Kind { kConnect, kAdmit, kClose, kSend };
  Kind kind = Kind::kSend;
  LinkId link;                         // kConnect: answer with OnConnected or OnConnectFailed
  transport::ConnectionId connection;  // all but kConnect
  wire::Frame frame;                   // kSend
};
using WireActions = std::vector<WireAction>;

// Delays of a link; all counted from the `now` of its events.
struct LinkTiming {
  absl::Duration resend_after = absl::Seconds(5);  // without an answer
  absl::Duration hello_timeout = absl::Seconds(5);
  absl::Duration backoff_min = absl::Milliseconds(50);
  absl::Duration backoff_max = absl::Seconds(1);
  absl::Duration give_up_after = absl::Seconds(30);  // without a connection confirmed by HELLO
};

// How often `resend_after` doubles while a peer acknowledges nothing: on a slow link it may still
// be in flight.
inline constexpr int kResendDoublings = 4;

// Identifies the sender in every frame of a link.
struct LinkIdentity {
  uint32_t job = 0, view = 0, generation = 0, node = 0, incarnation = 0;
  wire::Hello hello;
};

// Returns why a frame was refused: the refusal's text, or the name of its error.
std::string RefusalText(const wire::Frame& refusal);

// Writes the identity into the header.
void SignHeader(const LinkIdentity& identity, wire::Header* header);
// Make a header with the identity, and the HELLO that opens a connection.
wire::Header MakeHeader(const LinkIdentity& identity, wire::Op op);
wire::Frame MakeHello(const LinkIdentity& identity);
// Checks that a HELLO comes from another node of the job of `self`. Returns kNone, or the reason;
// `connection` is the connection's number as given by the peer.
wire::ErrorCode CheckPeerHello(const LinkIdentity& self, const wire::Frame& frame,
                               uint32_t* connection);
// Makes a kError or kRetry without text, which is no longer than the frame that it answers.
wire::Frame MakeRefusal(const LinkIdentity& self, wire::Op op, wire::ErrorCode error);

// The current state of a link.
struct LinkActivity {
  bool connected = false;   // with HELLO confirmed
  uint32_t unanswered = 0;  // requests
  // The oldest of these requests.
  uint64_t oldest_clock = 0;
  uint32_t oldest_chunk = 0;
  absl::Duration oldest_age;
  // If it is not connected: for how long, and why the last connection ended.
  absl::Duration down_for;
  std::string error;

  // Adds another link to the same peer: connected if all are, with the oldest request of any.
  void Add(const LinkActivity& other);
};

// Maintains a link's connection: makes one, gives it up if HELLO is not confirmed in time, makes
// the next one with backoff, and gives up on the peer after too long without one. Its owner decides
// what is sent on the connection, including HELLO.
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

  // Called once, first.
  void Start(absl::Time now, WireActions* actions);
  // The connection was made: the owner sends HELLO on it.
  void OnConnected(transport::ConnectionId connection, absl::Time now);
  // HELLO was confirmed by either side: the link is up, and the peer is admitted.
  void OnGreeted(WireActions* actions);
  // Adopts a connection made by the peer whose HELLO was checked. Closes the previous one, if any.
  void Adopt(transport::ConnectionId connection, WireActions* actions);
  // The connection is gone, could not be made, is given up (`why` OK keeps the last cause), or
  // carried something unreadable. Closes it and plans the next one.
  void OnLost(const absl::Status& why, absl::Time now, WireActions* actions);
  void Close(WireActions* actions);
  // From now on OnTime returns no error: the peer may be gone for good.
  void NeverGiveUp() { gives_up_ = false; }

  // Does what is due. Errors: Unavailable (no connection for too long): "... could not be reached
  // for 30s (why the last one was lost)".
  absl::Status OnTime(absl::Time now, WireActions* actions);
  // When OnTime has something to do next; infinity while the link is up.
  absl::Time deadline() const;

  bool is_up() const { return state_ == State::kUp; }
  // Whether HELLO has been sent and not confirmed yet.
  bool is_greeting() const { return state_ == State::kGreeting; }
  // REQUIRES: there is one, as while the link is up or greeting.
  transport::ConnectionId connection() const;
  // The open connection, even if it is still greeting.
  std::optional<transport::ConnectionId> open() const { return connection_; }
  bool Owns(transport::ConnectionId connection) const { return connection_ == connection; }
  // Since when the link has been down; infinity while it is up.
  absl::Time down_since() const { return down_since_; }
  // Sets `connected`, and for a link that is down `down_for` and `error`. REQUIRES: started.
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

#endif  // STRATA_COMMON_TRANSPORT_LINK_H_

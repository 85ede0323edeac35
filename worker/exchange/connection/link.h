#ifndef STRATA_WORKER_EXCHANGE_CONNECTION_LINK_H_
#define STRATA_WORKER_EXCHANGE_CONNECTION_LINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata::worker {

// What the links of this folder to one peer each (a shard, another node) have in common.

// A link of one core: an index that means something to that core alone.
using LinkId = Id<struct LinkIdTag, uint32_t>;

// What a protocol core wants done with its connections, in order.
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
  absl::Duration give_up_after = absl::Seconds(30);  // without a connection that HELLO confirmed
};

// Times that `resend_after` doubles while a peer acknowledges nothing: on a slow link it may just
// be on its way.
inline constexpr int kResendDoublings = 4;

// Who speaks on a link; the same in every frame.
struct LinkIdentity {
  uint32_t job = 0, view = 0, generation = 0, node = 0, incarnation = 0;
  wire::Hello hello;
};

// Why a frame was refused: its text, or the name of its error.
std::string TextOf(const wire::Frame& refusal);

// Says in the header who speaks.
void Sign(const LinkIdentity& identity, wire::Header* header);
// The HELLO that opens a connection, or anything else that says who speaks.
wire::Header HeaderOf(const LinkIdentity& identity, wire::Op op);
wire::Frame HelloOf(const LinkIdentity& identity);
// Whether a HELLO is that of another node of the same job, which `self` speaks for: kNone, or why
// not; and which of that node's connections it says to be.
wire::ErrorCode CheckPeerHello(const LinkIdentity& self, const wire::Frame& frame,
                               uint32_t* connection);
// kError or kRetry, without text: no longer than what it answers.
wire::Frame RefusalOf(const LinkIdentity& self, wire::Op op, wire::ErrorCode error);

// What a link does now.
struct LinkActivity {
  bool connected = false;   // and HELLO confirmed
  uint32_t unanswered = 0;  // requests
  // Of them the one that was asked first.
  uint64_t oldest_clock = 0;
  uint32_t oldest_chunk = 0;
  absl::Duration oldest_age;
  // Without a connection: for how long, and why the last one ended.
  absl::Duration down_for;
  std::string error;

  // Makes it that of several links to one peer: connected where all are, what is oldest of any.
  void Add(const LinkActivity& other);
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CONNECTION_LINK_H_

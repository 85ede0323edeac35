#ifndef STRATA_COMMON_LINK_LINK_H_
#define STRATA_COMMON_LINK_LINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata {

// A link: a core's lasting relation to one peer (a shard, another node) over connections that come
// and go.

// Names a link of one core: an index that means something to that core alone.
using LinkId = Id<struct LinkIdTag, uint32_t>;

// What a protocol core wants done with its connections; a list of them is done in order.
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

// Says in every frame of a link who speaks.
struct LinkIdentity {
  uint32_t job = 0, view = 0, generation = 0, node = 0, incarnation = 0;
  wire::Hello hello;
};

// Returns why a frame was refused: its text, or the name of its error.
std::string RefusalText(const wire::Frame& refusal);

// Writes into the header who speaks.
void SignHeader(const LinkIdentity& identity, wire::Header* header);
// Make a header that says who speaks, and the HELLO that opens a connection.
wire::Header MakeHeader(const LinkIdentity& identity, wire::Op op);
wire::Frame MakeHello(const LinkIdentity& identity);
// Checks that a HELLO is that of another node of the job that `self` speaks for. Returns kNone, or
// why it is not; `connection` is which of that node's connections it says to be.
wire::ErrorCode CheckPeerHello(const LinkIdentity& self, const wire::Frame& frame,
                               uint32_t* connection);
// Makes a kError or kRetry without text: no longer than what it answers.
wire::Frame MakeRefusal(const LinkIdentity& self, wire::Op op, wire::ErrorCode error);

// How a link stands now.
struct LinkActivity {
  bool connected = false;   // and HELLO confirmed
  uint32_t unanswered = 0;  // requests
  // The request among them that was asked first.
  uint64_t oldest_clock = 0;
  uint32_t oldest_chunk = 0;
  absl::Duration oldest_age;
  // Where it is not connected: for how long, and why the last connection ended.
  absl::Duration down_for;
  std::string error;

  // Adds another link to the same peer: connected if all are, with the oldest request of any.
  void Add(const LinkActivity& other);
};

}  // namespace strata

#endif  // STRATA_COMMON_LINK_LINK_H_

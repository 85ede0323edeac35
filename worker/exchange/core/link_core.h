#ifndef STRATA_WORKER_EXCHANGE_CORE_LINK_CORE_H_
#define STRATA_WORKER_EXCHANGE_CORE_LINK_CORE_H_

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
#include "common/transport/link.h"
#include "common/wire/frame.h"
#include "numerics/checked_payload.h"

namespace strata::worker {

// One request of a core to the node; WireActions are separate.
struct NodeAction {
  enum class Kind {
    kFirstWeights,  // answer with OnPayload
    kDeliverFirst,  // `weights` are the chunk's first ones, replacing the node's own
    kSum,           // the chunk's sum of `clock`: answer with OnPayload
    kDeliver,       // `weights` are part of the chunk's weights after `clock`, or the change from
                    // those before
    kDeliverFinal,  // `weights` are the job's final ones
  };
  Kind kind = Kind::kSum;
  ChunkId chunk;
  uint64_t clock = 0;
  uint32_t first_element = 0;  // kDeliver: within the chunk
  bool lands = false;          // kDeliver: this completes the chunk
  uint32_t ranks = 0;          // kDeliver: ranks whose sums are in it; 0: all of the job's nodes'
  Bytes weights;
  // kDeliver: `weights` are this payload, to be added; absent: they are fp32, and replace.
  std::optional<numerics::CheckedPayload> delta;
};

struct CoreActions {
  WireActions wire;
  std::vector<NodeAction> node;
};

// An event of a core: it starts, one of its links has news, or time has passed.
struct LinkEvent {
  enum class Kind {
    kStart,          // once, before all others
    kConnected,      // a WireAction::kConnect succeeded: `link` has `connection`
    kConnectFailed,  // it failed: `why`
    kFrame,          // `frame` came on `connection`
    kLost,           // `connection` is gone: `why`; ignored if it is no longer in use
    kQueueFull,      // the endpoint's queue of `connection` was full: `frame` was not taken
    kTime,           // time has passed
  };

  static LinkEvent Start() { return {.kind = Kind::kStart}; }
  static LinkEvent Connected(LinkId link, transport::ConnectionId connection) {
    return {.kind = Kind::kConnected, .link = link, .connection = connection};
  }
  static LinkEvent ConnectFailed(LinkId link, absl::Status why) {
    return {.kind = Kind::kConnectFailed, .link = link, .why = std::move(why)};
  }
  // `frame` outlives the event.
  static LinkEvent Frame(transport::ConnectionId connection, const wire::Frame& frame) {
    return {.kind = Kind::kFrame, .connection = connection, .frame = &frame};
  }
  static LinkEvent Lost(transport::ConnectionId connection, absl::Status why) {
    return {.kind = Kind::kLost, .connection = connection, .why = std::move(why)};
  }
  // `send` outlives the event.
  static LinkEvent QueueFull(const WireAction& send) {
    return {.kind = Kind::kQueueFull, .connection = send.connection, .frame = &send.frame};
  }
  static LinkEvent Time() { return {.kind = Kind::kTime}; }

  Kind kind = Kind::kTime;
  LinkId link;
  transport::ConnectionId connection;
  const wire::Frame* frame = nullptr;
  absl::Status why;
};

// An object that communicates over links: events in, actions out; time comes with the events. A
// pure state machine.
class LinkCore {
 public:
  virtual ~LinkCore() = default;

  // Errors end the job and name the peer's address; the actions must be performed all the same.
  virtual absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now,
                                   CoreActions* actions) = 0;
  // The latest time for the next kTime.
  virtual absl::Time deadline() const = 0;
  // The address for kConnect.
  virtual const std::string& address(LinkId link) const = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_LINK_CORE_H_

#ifndef STRATA_COMMON_TRANSPORT_ENDPOINT_H_
#define STRATA_COMMON_TRANSPORT_ENDPOINT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/ids.h"
#include "common/seal/seal.h"
#include "common/wire/frame.h"

namespace strata::transport {

// One connection of one endpoint; never used again after kDisconnected.
using ConnectionId = Id<struct ConnectionIdTag, uint64_t>;

struct Event {
  enum class Kind {
    kFrame,  // a checked frame
    // Data that wire::Decode refused (InvalidArgument), or that lacks a required seal
    // (PermissionDenied); `error` gives the reason; nothing else is valid.
    kMalformed,
    kDisconnected,  // the connection is gone (also when the peer could not be reached)
  };
  Kind kind = Kind::kFrame;
  ConnectionId connection;
  wire::Frame frame;
  absl::Status error;  // kMalformed, kDisconnected: why
};

// Accepted connections of an endpoint.
struct EndpointUse {
  size_t connections = 0;
  size_t connections_max = 0;  // 0: no limit
  // Connections that were closed, since the beginning:
  uint64_t refused = 0;  // above the limit
  uint64_t late = 0;     // not admitted in time
  uint64_t endless = 0;  // for a message larger than any frame
  // Connections that ended without a complete message: peers that use another protocol or send too
  // long a part.
  uint64_t silent = 0;
  // If jobs are sealed, what was refused: frames of sealed jobs without a seal, or with one before
  // the peer has proved knowledge of the job's secret; broken seals, each of which ended its
  // connection; peers that did not know the secret.
  uint64_t unsealed = 0, broken_seals = 0, wrong_secrets = 0;
};

// The narrow interface between protocol cores and a network: it moves checked frames, in order per
// connection while the connection lives, each at most once. Loss of a connection is reported, never
// repaired: the initiator reconnects (a new ConnectionId), sends HELLO and resends.
//
// Threads: all calls from the owner's thread, except Wake.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Accepts connections at "tcp://HOST:PORT" (port 0: any free one). Returns the bound port.
  // Errors: AlreadyExists (port in use), InvalidArgument (address), each naming the address.
  virtual absl::StatusOr<int> Listen(const std::string& address) = 0;

  // Starts to connect and returns at once; failure shows as kDisconnected. Errors: InvalidArgument.
  virtual absl::StatusOr<ConnectionId> Connect(const std::string& address) = 0;
  // The same for the frames of this job: if several jobs are protected here, this selects the keys.
  virtual absl::StatusOr<ConnectionId> ConnectFor(const std::string& address, JobId /*job*/) {
    return Connect(address);
  }

  // Queues a frame, and sets its payload's checksum in the header. Zero-copy: the payload's owner
  // is kept until the bytes have left. Never blocks. Errors: NotFound (no such connection),
  // InvalidArgument (the payload is over the endpoint's limit), ResourceExhausted (the peer's
  // bounded queue is full: the frame was not taken), FailedPrecondition (it must go by reference,
  // and cannot: it was not taken).
  virtual absl::Status Send(ConnectionId connection, const wire::Frame& frame) = 0;

  // Appends new events, possibly several, waiting up to `timeout` for the first event or Wake.
  virtual void Poll(absl::Duration timeout, std::vector<Event>* events) = 0;

  // Wakes Poll also when this file descriptor is readable (an eventfd that the owner reads). At
  // most one.
  virtual void WatchFd(int fd) = 0;

  virtual EndpointUse use() const { return {}; }

  // Memory whose payloads go by reference to peers on this host; null: there is none.
  virtual std::shared_ptr<BlockSource> memory() const { return nullptr; }
  // The same for connections of one job only, for Admit; null: there is none.
  virtual std::shared_ptr<BlockSource> NewMemory() { return nullptr; }

  // Marks a connection as authenticated. It may send frames of any size: before, an implementation
  // may consider a large, slow frame endless. If the peer is on this host and has admitted this
  // side, too, both may read each other's `memory`, and payloads in it go by reference; null: they
  // go with their frames.
  virtual void Admit(ConnectionId /*connection*/, const std::shared_ptr<BlockSource>& /*memory*/) {}

  // Returns whether payloads in such memory now go to this peer by reference.
  virtual bool Refers(ConnectionId /*connection*/) const { return false; }

  // Seals the job's frames with these keys from now on, in both directions, and accepts no other
  // frames of the job; connections made from here belong to the job. A later call sets other keys
  // for later connections. Errors: Unimplemented: this endpoint seals nothing.
  virtual absl::Status Protect(JobId /*job*/, const seal::JobKeys& /*keys*/) {
    return absl::UnimplementedError("this endpoint cannot seal frames");
  }
  // From now on the job's keys admit nobody.
  virtual void Forget(JobId /*job*/) {}

  // Ends a connection; queued frames are dropped. No event follows.
  virtual void Close(ConnectionId connection) = 0;
  // The same, and the peer soon learns of it: Close may leave it an idle connection.
  virtual void Cut(ConnectionId connection) { Close(connection); }

  // Thread-safe: makes a running or the next Poll return.
  virtual void Wake() = 0;
};

// Refused messages by cause, in the user's terms. The set of causes is fixed.
using Refusals = std::map<std::string, uint64_t>;

// Returns the refusals of an endpoint itself, without causes that did not occur.
Refusals RefusalsOf(const EndpointUse& use);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ENDPOINT_H_

#ifndef STRATA_COMMON_TRANSPORT_ZMQ_ZMQ_ENDPOINT_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_ZMQ_ENDPOINT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/os/limits.h"
#include "common/transport/endpoint.h"
#include "common/transport/region_memory.h"

namespace strata::transport {

struct ZmqOptions {
  // Larger payloads are refused by Send, and never arrive from a peer.
  uint64_t payload_bytes_max = kFramePayloadBytesMax;
  // Limit of an unfinished message's bytes from a connected peer that was not admitted; beyond that
  // the connection is ended.
  uint64_t stranger_bytes_max = 2 * kFramePayloadBytesMax;
  // Limits of a peer's queue, including ZeroMQ's part: payload bytes, and frames. Send refuses
  // beyond either, but a peer with an empty queue always accepts one frame.
  size_t queue_bytes_max = 64 << 20;
  size_t queue_frames_max = 4096;
  // Maximum number of open accepted connections, and of strangers (not admitted) in addition.
  // Beyond that the oldest stranger is disconnected; admitted ones stay.
  size_t connections_max = ServerLimits().connections_max;
  size_t strangers_max = 0;
  // Strangers are disconnected after this time.
  absl::Duration stranger_timeout = absl::InfiniteDuration();
  // A connection that is not up within this time is reported as gone.
  absl::Duration connect_timeout = absl::Seconds(5);
  // A peer that is silent for this long is gone: its process is stopped, its host unreachable, or
  // it has not received for that time while its queues are full.
  absl::Duration silence_timeout = absl::Seconds(15);

  // Payloads in it go by reference to peers on this host that are admitted with it, and theirs are
  // accepted that way. Null, and no `new_memory`: all payloads go over TCP.
  std::shared_ptr<RegionMemory> memory;
  // Makes more of it, for an endpoint of several jobs (Endpoint::NewMemory).
  std::function<std::shared_ptr<RegionMemory>()> new_memory;

  // Errors: InvalidArgument naming the field.
  absl::Status Validate() const;
};

// An endpoint over ZeroMQ, "tcp://HOST:PORT" with IPv4 addresses or names. Accepted connections
// share one ROUTER socket; each outgoing connection is a DEALER of its own, which never reconnects.
// All endpoints of a process share one ZeroMQ context, which lives until the process ends.
//
// A peer that connected to us and vanished is reported as kDisconnected, too. Close on an accepted
// connection forgets it, and drops what it sends later; ZeroMQ cannot end it. Cut ends its TCP
// connection. Errors: InvalidArgument (options), ResourceExhausted (descriptors).
absl::StatusOr<std::unique_ptr<Endpoint>> CreateZmqEndpoint(const ZmqOptions& options);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_ZMQ_ENDPOINT_H_

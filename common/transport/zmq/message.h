#ifndef STRATA_COMMON_TRANSPORT_ZMQ_MESSAGE_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_MESSAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/transport/endpoint.h"
#include "common/transport/region/region_session.h"
#include "common/wire/frame.h"

namespace strata::transport {

// Payload bytes that ZeroMQ or a queue of ours still holds for one peer. Shared with the I/O
// thread, which drops a payload when its bytes have left.
using OutstandingBytes = std::atomic<size_t>;

// A frame ready to be sent.
struct OutgoingFrame {
  std::array<std::byte, wire::kHeaderBytes> header;
  std::optional<std::array<std::byte, wire::kSealBytes>> seal;
  Bytes payload;
};

enum class SendResult {
  kSent,
  kFull,    // the peer's queue in ZeroMQ has no place: try again later
  kNoPeer,  // the connection is gone
};

// Sends a frame, after `routing_id` where that is not empty (a ROUTER), without blocking or copying
// the payload; the frame's share of `outstanding` is given back once the payload has left.
SendResult SendFrame(void* socket, const std::string& routing_id, const OutgoingFrame& frame,
                     const std::shared_ptr<OutstandingBytes>& outstanding);

// Takes one message off a socket without blocking, and decodes it into `event` (kFrame or
// kMalformed; the connection is the caller's to set). False: none is there. `routing_id` not null:
// the socket is a ROUTER; it is set to the sender's, and `fd` to its TCP connection's. A probe (see
// wire::kProbe) is kMalformed with the error Cancelled.
bool ReceiveFrame(void* socket, const wire::Limits& limits, std::string* routing_id, int* fd,
                  Event* event);

// Puts the payload of a frame that refers to one in its place; kMalformed where that fails.
// `session`: the connection's; may be null.
void Resolve(RegionSession* session, Event* event);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_MESSAGE_H_

#ifndef STRATA_COMMON_TRANSPORT_ZMQ_MESSAGE_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_MESSAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "common/transport/endpoint.h"
#include "common/transport/region_session.h"
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
  kFull,    // the peer's queue in ZeroMQ is full: try again later
  kNoPeer,  // the connection is gone
};

// Sends a frame, after `routing_id` if that is not empty (a ROUTER), without blocking or copying
// the payload; the frame's share of `outstanding` is released once the payload has left.
SendResult SendFrame(void* socket, const std::string& routing_id, const OutgoingFrame& frame,
                     const std::shared_ptr<OutstandingBytes>& outstanding);

// Receives one message from a socket without blocking, and decodes it into `event` (kFrame or
// kMalformed; the caller sets the connection). Returns false if there is none. `routing_id` not
// null: the socket is a ROUTER; it is set to the sender's, and `fd` to its TCP connection's. A
// probe (see wire::kProbe) is kMalformed with the error Cancelled.
bool ReceiveFrame(void* socket, const wire::Limits& limits, std::string* routing_id, int* fd,
                  Event* event);

// Resolves the payload of a frame that refers to one; kMalformed if that fails. `session`: the
// connection's; may be null.
void Resolve(RegionSession* session, Event* event);

// Frames that wait for one peer, in order. Limited in frames, and in payload bytes, which count
// until they have left ZeroMQ; one frame is always accepted when no bytes wait. Threads: one.
class SendQueue {
 public:
  struct Limits {
    uint64_t payload_bytes_max = 0;
    size_t queue_bytes_max = 0;
    size_t queue_frames_max = 0;
  };

  explicit SendQueue(const Limits& limits) : limits_(limits) {}

  bool empty() const { return frames_.empty(); }

  // Adds a frame at the end. With a session, its payload may go by reference. Errors:
  // InvalidArgument (payload over the limit), ResourceExhausted (full), FailedPrecondition (it must
  // go by reference).
  absl::Status Add(wire::Frame frame, RegionSession* session);

  // Sends until the queue is empty (kSent), ZeroMQ accepts no more (kFull) or the peer is gone.
  SendResult Flush(void* socket, const std::string& routing_id);

 private:
  Limits limits_;
  std::deque<OutgoingFrame> frames_;
  // Counts the bytes of frames_ and of what ZeroMQ still holds.
  std::shared_ptr<OutstandingBytes> outstanding_ = std::make_shared<OutstandingBytes>(0);
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_MESSAGE_H_

#ifndef STRATA_COMMON_TRANSPORT_ZMQ_SEND_QUEUE_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_SEND_QUEUE_H_

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/transport/region/region_session.h"
#include "common/transport/zmq/message.h"
#include "common/wire/frame.h"

namespace strata::transport {

// Frames that wait for one peer, in order. Bounded in frames, and in payload bytes, which count
// until they have left ZeroMQ; one frame is taken whenever no bytes wait. Threads: one.
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
  // InvalidArgument (payload over the limit), ResourceExhausted (full), FailedPrecondition (it is
  // to go by reference only).
  absl::Status Add(wire::Frame frame, RegionSession* session);

  // Sends until the queue is empty (kSent), ZeroMQ takes no more (kFull) or the peer is gone.
  SendResult Flush(void* socket, const std::string& routing_id);

 private:
  Limits limits_;
  std::deque<OutgoingFrame> frames_;
  // Counts the bytes of frames_ and of what ZeroMQ still holds.
  std::shared_ptr<OutstandingBytes> outstanding_ = std::make_shared<OutstandingBytes>(0);
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_SEND_QUEUE_H_

#include "common/transport/zmq/message.h"

#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/copies.h"

namespace strata::transport {
namespace {

// A received part; closing it returns ZeroMQ's memory.
class Part {
 public:
  Part() { zmq_msg_init(&message_); }
  ~Part() { zmq_msg_close(&message_); }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  bool Receive(void* socket) {
    int result = -1;
    do {
      result = zmq_msg_recv(&message_, socket, ZMQ_DONTWAIT);
    } while (result < 0 && zmq_errno() == EINTR);
    return result >= 0;
  }
  bool has_more() const { return zmq_msg_more(&message_) != 0; }
  int fd() { return zmq_msg_get(&message_, ZMQ_SRCFD); }
  size_t size() const { return zmq_msg_size(&message_); }
  std::byte* data() { return static_cast<std::byte*>(zmq_msg_data(&message_)); }
  absl::Span<const std::byte> bytes() { return {data(), size()}; }
  absl::string_view text() { return {reinterpret_cast<const char*>(data()), size()}; }

 private:
  zmq_msg_t message_;
};

// Keeps a payload until ZeroMQ's I/O thread has sent it.
struct PayloadHold {
  PayloadHold(Bytes bytes, std::shared_ptr<OutstandingBytes> count)
      : payload(std::move(bytes)), outstanding(std::move(count)) {}

  Bytes payload;
  std::shared_ptr<OutstandingBytes> outstanding;
  // ZeroMQ itself orders the hand-over to its thread; the flag shows that to ThreadSanitizer, which
  // cannot see into ZeroMQ.
  std::atomic<bool> is_handed_over = false;
};

void ReleasePayload(void* /*data*/, void* hint) {
  const std::unique_ptr<PayloadHold> hold(static_cast<PayloadHold*>(hint));
  if (hold->is_handed_over.load()) *hold->outstanding -= hold->payload.size();
}

// Returns true if ZeroMQ has taken it over.
bool SendCopy(void* socket, const void* data, size_t size, int flags) {
  int result = -1;
  do {
    result = zmq_send(socket, data, size, flags | ZMQ_DONTWAIT);
  } while (result < 0 && zmq_errno() == EINTR);
  return result >= 0;
}

bool SendPayload(void* socket, const Bytes& payload,
                 const std::shared_ptr<OutstandingBytes>& outstanding) {
  auto hold = std::make_unique<PayloadHold>(payload, outstanding);
  hold->is_handed_over.store(true);
  zmq_msg_t message;
  // ZeroMQ takes a pointer to mutable bytes, but only reads them to send.
  zmq_msg_init_data(&message, const_cast<std::byte*>(payload.data()), payload.size(),
                    &ReleasePayload, hold.release());
  int result = -1;
  do {
    result = zmq_msg_send(&message, socket, ZMQ_DONTWAIT);
  } while (result < 0 && zmq_errno() == EINTR);
  if (result < 0) zmq_msg_close(&message);  // calls ReleasePayload
  return result >= 0;
}

SendResult ResultOfErrno() {
  return zmq_errno() == EAGAIN ? SendResult::kFull : SendResult::kNoPeer;
}

// Only bytes of a chunk count as copies (common/copies.h), not those of a handshake.
bool IsInlineChunk(const wire::Header& header) {
  return header.element_count > 0 && header.payload_kind == wire::PayloadKind::kInline;
}

// Payloads are used as floats, and ZeroMQ places small ones at any address. A part received over a
// kernel socket has no other user.
void TakePayload(std::shared_ptr<Part> part, wire::Frame* frame) {
  frame->writable = part->data();
  const size_t size = part->size();
  if (reinterpret_cast<uintptr_t>(part->data()) % alignof(float) == 0) {
    frame->payload = Bytes(std::move(part), frame->writable, size);
    return;
  }
  auto copy = std::make_shared<std::vector<float>>((size + sizeof(float) - 1) / sizeof(float));
  std::memcpy(copy->data(), part->data(), size);
  if (IsInlineChunk(frame->header)) CountCopy(CopyReason::kUnaligned, size);
  frame->writable = reinterpret_cast<std::byte*>(copy->data());
  frame->payload = Bytes(std::move(copy), frame->writable, size);
}

// Sends the first part of a frame: its header, and its seal if it has one.
bool SendHead(void* socket, const OutgoingFrame& frame, int flags) {
  if (!frame.seal) return SendCopy(socket, frame.header.data(), frame.header.size(), flags);
  std::array<std::byte, wire::kHeaderBytes + wire::kSealBytes> head;
  std::copy(frame.header.begin(), frame.header.end(), head.begin());
  std::copy(frame.seal->begin(), frame.seal->end(), head.begin() + wire::kHeaderBytes);
  return SendCopy(socket, head.data(), head.size(), flags);
}

// Removes the seal from a frame's first part, and returns the header.
absl::Span<const std::byte> TakeSeal(absl::Span<const std::byte> head, wire::Frame* frame) {
  if (head.size() != wire::kHeaderBytes + wire::kSealBytes) return head;
  frame->seal.emplace();
  std::copy(head.begin() + wire::kHeaderBytes, head.end(), frame->seal->begin());
  return head.first(wire::kHeaderBytes);
}

void SkipRest(void* socket, const Part& last) {
  bool has_more = last.has_more();
  while (has_more) {
    Part part;
    if (!part.Receive(socket)) return;
    has_more = part.has_more();
  }
}

}  // namespace

SendResult SendFrame(void* socket, const std::string& routing_id, const OutgoingFrame& frame,
                     const std::shared_ptr<OutstandingBytes>& outstanding) {
  if (!routing_id.empty() && !SendCopy(socket, routing_id.data(), routing_id.size(), ZMQ_SNDMORE)) {
    return ResultOfErrno();
  }
  const int more = !frame.payload.empty() ? ZMQ_SNDMORE : 0;
  if (!SendHead(socket, frame, more)) return ResultOfErrno();
  if (frame.payload.empty()) return SendResult::kSent;
  // Once begun, a message is always accepted to its end.
  return SendPayload(socket, frame.payload, outstanding) ? SendResult::kSent : SendResult::kNoPeer;
}

bool ReceiveFrame(void* socket, const wire::Limits& limits, std::string* routing_id, int* fd,
                  Event* event) {
  Part header;
  if (!header.Receive(socket)) return false;
  event->kind = Event::Kind::kMalformed;
  if (routing_id != nullptr) {
    routing_id->assign(reinterpret_cast<const char*>(header.data()), header.size());
    if (!header.has_more() || !header.Receive(socket)) {
      event->error = absl::InvalidArgumentError("a message of no parts");
      return true;
    }
    *fd = header.fd();  // the routing id does not always have it
  }
  if (!header.has_more() && header.text() == wire::kProbe) {
    event->error = absl::CancelledError("a probe");
    return true;
  }
  auto payload = std::make_shared<Part>();
  if (header.has_more()) {
    const bool is_whole = payload->Receive(socket);
    if (!is_whole || payload->has_more()) {
      SkipRest(socket, *payload);
      event->error = absl::InvalidArgumentError("a message of more than two parts");
      return true;
    }
    if (payload->size() == 0) {
      event->error = absl::InvalidArgumentError("a second part without bytes");
      return true;
    }
  }
  const absl::Span<const std::byte> head = TakeSeal(header.bytes(), &event->frame);
  event->error = wire::Decode(head, payload->bytes(), limits, &event->frame.header,
                              event->frame.seal.has_value());
  if (!event->error.ok()) return true;
  if (payload->size() > 0) {
    TakePayload(std::move(payload), &event->frame);
    event->frame.payload.RememberChecksum(event->frame.header.payload_checksum);
  }
  event->kind = Event::Kind::kFrame;
  return true;
}

void Resolve(RegionSession* session, Event* event) {
  if (event->frame.header.payload_kind != wire::PayloadKind::kRegion) return;
  event->error = session == nullptr
                     ? absl::InvalidArgumentError("REGION of a peer without shared memory")
                     : session->Resolve(&event->frame);
  if (!event->error.ok()) event->kind = Event::Kind::kMalformed;
}

absl::Status SendQueue::Add(wire::Frame frame, RegionSession* session) {
  const size_t size = frame.payload.size();
  if (size > limits_.payload_bytes_max) {
    // ZeroMQ would report such a frame as sent, although the peer would never get it.
    return absl::InvalidArgumentError(
        absl::StrFormat("payload of %d bytes is over the limit of %d: %s", size,
                        limits_.payload_bytes_max, wire::Describe(frame.header)));
  }
  const size_t waiting = outstanding_->load();
  if (frames_.size() >= limits_.queue_frames_max ||
      (waiting > 0 && waiting + size > limits_.queue_bytes_max)) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the peer does not keep up: %d frames and %d bytes wait for it", frames_.size(), waiting));
  }
  // A sealed payload goes inline, as its seal covers that.
  const bool may_refer = session != nullptr && (!frame.seal || frame.by_reference);
  if (may_refer) session->Refer(&frame);
  if (frame.by_reference && frame.header.payload_kind != wire::PayloadKind::kRegion) {
    return absl::FailedPreconditionError("the payload cannot go by reference");
  }
  if (IsInlineChunk(frame.header)) CountCopy(CopyReason::kSocket, frame.payload.size());
  *outstanding_ += frame.payload.size();
  frame.header.payload_checksum = wire::ChecksumToSend(frame);
  frames_.push_back(
      {wire::EncodeHeader(frame.header, frame.payload.size()), frame.seal, frame.payload});
  return absl::OkStatus();
}

SendResult SendQueue::Flush(void* socket, const std::string& routing_id) {
  while (!frames_.empty()) {
    const SendResult result = SendFrame(socket, routing_id, frames_.front(), outstanding_);
    if (result != SendResult::kSent) return result;
    frames_.pop_front();
  }
  return SendResult::kSent;
}

}  // namespace strata::transport

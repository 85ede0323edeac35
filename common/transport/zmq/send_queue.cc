#include "common/transport/zmq/send_queue.h"

#include "absl/strings/str_format.h"
#include "common/copies.h"

namespace strata::transport {

absl::Status SendQueue::Add(wire::Frame frame, RegionSession* session) {
  const size_t size = frame.payload.size();
  if (size > limits_.payload_bytes_max) {
    // ZeroMQ would report such a frame as sent, and the peer would never see it.
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
  // A sealed payload goes as it is: its seal says so.
  const bool may_refer = session != nullptr && (!frame.seal || frame.by_reference);
  if (may_refer) session->Refer(&frame);
  if (frame.by_reference && frame.header.payload_kind != wire::PayloadKind::kRegion) {
    return absl::FailedPreconditionError("the payload cannot go by reference");
  }
  const bool is_chunk =
      frame.header.element_count > 0 && frame.header.payload_kind == wire::PayloadKind::kInline;
  if (is_chunk) CountCopy(CopyReason::kSocket, frame.payload.size());
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

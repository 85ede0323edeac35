#include "server/shard/frames/reply.h"

#include <memory>

#include "absl/strings/str_format.h"

namespace strata::server {

wire::Frame Reply(const wire::Header& request, wire::Op op) {
  wire::Frame frame;
  frame.header.op = op;
  frame.header.job = request.job;
  frame.header.view = request.view;
  frame.header.generation = request.generation;
  frame.header.chunk = request.chunk;
  frame.header.node = request.node;
  frame.header.incarnation = request.incarnation;
  frame.header.clock = request.clock;
  return frame;
}

wire::Frame RetryReply(const wire::Header& request, wire::ErrorCode code) {
  wire::Frame frame = Reply(request, wire::Op::kRetry);
  frame.header.error = code;
  return frame;
}

wire::Frame ErrorReply(const wire::Header& request, size_t request_payload_bytes,
                       wire::ErrorCode code, const std::string& reason) {
  wire::Frame frame = Reply(request, wire::Op::kError);
  frame.header.error = code;
  const auto text = std::make_shared<std::string>(reason.substr(0, request_payload_bytes));
  frame.payload = Bytes(text, reinterpret_cast<const std::byte*>(text->data()), text->size());
  return frame;
}

std::string PushReason(const wire::Header& push, const std::string& what) {
  return absl::StrFormat("node %d chunk %d clock %d: %s", push.node, push.chunk, push.clock, what);
}

}  // namespace strata::server

#include "server/shard/shard_action.h"

#include <memory>

#include "absl/strings/str_format.h"

namespace strata::server {

wire::Frame Reply(const wire::Header& request, wire::Op op) {
  wire::Frame frame;
  frame.header.op = op;
  frame.header.key_space = request.key_space;
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

using wire::ErrorCode;

namespace {

constexpr char kOfShardThatLeft[] = "frame of a shard that has left";
constexpr char kOldIncarnation[] = "old incarnation";

}  // namespace

std::string RefusalCause(ErrorCode code, Sender sender) {
  if (sender == Sender::kLeft) return kOfShardThatLeft;
  switch (code) {
    case ErrorCode::kNone:
    case ErrorCode::kMalformed:
      return "malformed";
    case ErrorCode::kWrongJob:
      if (sender == Sender::kStranger) return "unknown job";
      return sender == Sender::kJoining ? "wrong token or cluster" : "another job than HELLO's";
    case ErrorCode::kWrongView:
      return "wrong view";
    case ErrorCode::kWrongGeneration:
      return "wrong generation";
    case ErrorCode::kNoHello:
      return sender == Sender::kMember ? "another node than HELLO's" : "before HELLO";
    case ErrorCode::kWrongRole:
      return "wrong role";
    case ErrorCode::kWrongChunk:
      return "chunk outside the job";
    case ErrorCode::kBeyondWindow:
      return "beyond the window";
    case ErrorCode::kConflict:
      return "other content than before";
    case ErrorCode::kNotFinite:
      return "not finite";
    case ErrorCode::kFenced:
      return kOldIncarnation;
    case ErrorCode::kWrongVersion:
      return "wrong protocol version";
    case ErrorCode::kWrongCodec:
      return "codec of another job";
    case ErrorCode::kWrongConnection:
      return "outside the job's connections";
    case ErrorCode::kPeerFailed:
      return "wrong role";
  }
  return "malformed";
}

bool IsExpected(const std::string& cause) {
  return cause == kOfShardThatLeft || cause == kOldIncarnation;
}

}  // namespace strata::server

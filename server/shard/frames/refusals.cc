#include "server/shard/frames/refusals.h"

namespace strata::server {

using wire::ErrorCode;

std::string RefusalCause(ErrorCode code, Sender sender) {
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
      return "old incarnation";
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

}  // namespace strata::server

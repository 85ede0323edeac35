#include "absl/strings/str_format.h"
#include "common/wire/frame.h"

namespace strata::wire {

std::string ToString(Op op) {
  switch (op) {
    case Op::kHello:
      return "HELLO";
    case Op::kHelloOk:
      return "HELLO_OK";
    case Op::kInit:
      return "INIT";
    case Op::kInitOk:
      return "INIT_OK";
    case Op::kPushPull:
      return "PUSHPULL";
    case Op::kAnswer:
      return "ANSWER";
    case Op::kCut:
      return "CUT";
    case Op::kCutAnswer:
      return "CUT_ANSWER";
    case Op::kRetire:
      return "RETIRE";
    case Op::kRetireOk:
      return "RETIRE_OK";
    case Op::kRetry:
      return "RETRY";
    case Op::kError:
      return "ERROR";
    case Op::kSeed:
      return "SEED";
    case Op::kReduce:
      return "REDUCE";
    case Op::kGather:
      return "GATHER";
    case Op::kAttach:
      return "ATTACH";
    case Op::kAttachOk:
      return "ATTACH_OK";
    case Op::kFirst:
      return "FIRST";
    case Op::kAck:
      return "ACK";
    case Op::kHandshake:
      return "HANDSHAKE";
    case Op::kApply:
      return "APPLY";
    case Op::kCopy:
      return "COPY";
    case Op::kPull:
      return "PULL";
    case Op::kPulled:
      return "PULLED";
  }
  return absl::StrFormat("op %d", static_cast<int>(op));
}

std::string ToString(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNone:
      return "NONE";
    case ErrorCode::kMalformed:
      return "MALFORMED";
    case ErrorCode::kWrongJob:
      return "WRONG_JOB";
    case ErrorCode::kWrongView:
      return "WRONG_VIEW";
    case ErrorCode::kWrongGeneration:
      return "WRONG_GENERATION";
    case ErrorCode::kNoHello:
      return "NO_HELLO";
    case ErrorCode::kWrongRole:
      return "WRONG_ROLE";
    case ErrorCode::kWrongChunk:
      return "WRONG_CHUNK";
    case ErrorCode::kBeyondWindow:
      return "BEYOND_WINDOW";
    case ErrorCode::kConflict:
      return "CONFLICT";
    case ErrorCode::kNotFinite:
      return "NOT_FINITE";
    case ErrorCode::kFenced:
      return "FENCED";
    case ErrorCode::kWrongVersion:
      return "WRONG_VERSION";
    case ErrorCode::kWrongCodec:
      return "WRONG_CODEC";
    case ErrorCode::kWrongConnection:
      return "WRONG_CONNECTION";
    case ErrorCode::kPeerFailed:
      return "PEER_FAILED";
  }
  return absl::StrFormat("error %d", static_cast<int>(code));
}

bool IsSequenced(Op op) {
  return op == Op::kSeed || op == Op::kFirst || op == Op::kReduce || op == Op::kGather ||
         op == Op::kRetire;
}

bool IsLogged(Op op) {
  return op == Op::kInit || op == Op::kPushPull || op == Op::kRetire || op == Op::kApply ||
         op == Op::kCopy;
}

}  // namespace strata::wire

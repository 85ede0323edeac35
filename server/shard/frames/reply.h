#ifndef STRATA_SERVER_SHARD_FRAMES_REPLY_H_
#define STRATA_SERVER_SHARD_FRAMES_REPLY_H_

#include <string>

#include "common/wire/frame.h"

// Frames that answer a frame: they carry its job, view, generation, chunk, node, incarnation and
// clock back, so that the sender knows what is meant.
namespace strata::server {

// Returns an answer without payload.
wire::Frame Reply(const wire::Header& request, wire::Op op);
// Returns a RETRY. `code` may be kNone: before INIT.
wire::Frame RetryReply(const wire::Header& request, wire::ErrorCode code);
// Returns an ERROR with `reason`, cut so that the error is never longer than the request.
wire::Frame ErrorReply(const wire::Header& request, size_t request_payload_bytes,
                       wire::ErrorCode code, const std::string& reason);

// Returns "node 1 chunk 2 clock 3: WHAT", for errors about a push.
std::string PushReason(const wire::Header& push, const std::string& what);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAMES_REPLY_H_

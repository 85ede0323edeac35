#ifndef STRATA_SERVER_SHARD_FRAMES_REPLY_H_
#define STRATA_SERVER_SHARD_FRAMES_REPLY_H_

#include <string>

#include "common/wire/frame.h"

// Frames that answer a frame: they carry its job, view, generation, chunk, node, incarnation and
// clock back, so that the sender knows what is meant.
namespace strata::server {

// Without payload.
wire::Frame Reply(const wire::Header& request, wire::Op op);
// `code` may be kNone: before INIT.
wire::Frame RetryReply(const wire::Header& request, wire::ErrorCode code);
// With `reason`, cut so that the error is never longer than the request.
wire::Frame ErrorReply(const wire::Header& request, size_t request_payload_bytes,
                       wire::ErrorCode code, const std::string& reason);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAMES_REPLY_H_

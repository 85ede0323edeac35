#ifndef STRATA_SERVER_SHARD_SHARD_ACTION_H_
#define STRATA_SERVER_SHARD_SHARD_ACTION_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/ids.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata::server {

// An action that a shard requests; the loop around it performs them in order.
struct ShardAction {
  enum class Kind {
    kSend,
    kClose,
    kConnect,  // answer with ShardCore::OnConnected or OnConnectFailed
  };
  Kind kind = Kind::kSend;
  transport::ConnectionId connection;  // kSend, kClose
  wire::Frame frame;                   // kSend
  // kConnect: the address of the other copy of the job's shard.
  std::string address = {};
  JobId job = {};
  ShardId shard = {};
};

// Frames that answer a frame: they repeat its job, view, generation, chunk, node, incarnation and
// clock, so that the sender can match them.

// Returns an answer without payload.
wire::Frame Reply(const wire::Header& request, wire::Op op);
// Returns a RETRY. `code` may be kNone: before INIT.
wire::Frame RetryReply(const wire::Header& request, wire::ErrorCode code);
// Returns an ERROR with `reason`, truncated so that the error is never longer than the request.
wire::Frame ErrorReply(const wire::Header& request, size_t request_payload_bytes,
                       wire::ErrorCode code, const std::string& reason);

// Returns "node 1 chunk 2 clock 3: WHAT", for errors about a push.
std::string PushReason(const wire::Header& push, const std::string& what);

// Counts of frames that a shard refused, by cause. The causes are a fixed few.
using Refusals = std::map<std::string, uint64_t>;

// The sender of a refused frame, as far as its connection tells.
enum class Sender {
  kStranger,  // sent no HELLO of an installed job
  kJoining,   // sent HELLO of an installed job, not accepted
  kMember,    // bound to a node of a job
  kLeft,      // its shard was here: the job has ended, or the shard has moved
};

// Returns the cause in the user's terms: "before HELLO", "wrong token or cluster", ...
std::string RefusalCause(wire::ErrorCode code, Sender sender);

// Returns whether refusals for that cause are normal after a decision, as when a server is drained
// or a node is replaced: peers that do not know of it yet are refused.
bool IsExpected(const std::string& cause);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_ACTION_H_

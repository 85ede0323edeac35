#ifndef STRATA_SERVER_SHARD_FRAMES_REFUSALS_H_
#define STRATA_SERVER_SHARD_FRAMES_REFUSALS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/wire/frame.h"

namespace strata::server {

// What peers sent and a shard did not take, by cause. The causes are a fixed few.
using Refusals = std::map<std::string, uint64_t>;

// The sender of what was refused, as far as its connection tells.
enum class Sender {
  kStranger,  // no HELLO of an installed job
  kJoining,   // HELLO of an installed job, not accepted
  kMember,    // bound to a node of a job
};

// Returns the cause in words that users see: "before HELLO", "wrong token or cluster", ...
std::string RefusalCause(wire::ErrorCode code, Sender sender);

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAMES_REFUSALS_H_

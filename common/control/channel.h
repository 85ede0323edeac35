#ifndef STRATA_COMMON_CONTROL_CHANNEL_H_
#define STRATA_COMMON_CONTROL_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/limits/limits.h"
#include "common/unique_fd.h"

namespace strata::control {

// The largest message either way; a placement of a million chunks has a few MiB.
inline constexpr int kMessageBytesMax = kControlMessageBytesMax;

// Returns a channel to the coordinator with connections of its own (no other channel's backoff
// delays it), past any HTTP proxy of the environment. Connects when first used.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address);
// Returns a channel over a connected socket, and no other ever: its end is the socket's.
std::shared_ptr<grpc::Channel> ChannelOn(UniqueFd fd);

// Returns a status of the same code and text.
absl::Status FromGrpc(const grpc::Status& status);

// Unavailable: "coordinator at HOST:PORT cannot be reached (tried for 30s): connection refused".
absl::Status Unreachable(const std::string& address, const std::string& tried_for,
                         const std::string& why);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_CHANNEL_H_

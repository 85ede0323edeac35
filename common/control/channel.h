#ifndef STRATA_COMMON_CONTROL_CHANNEL_H_
#define STRATA_COMMON_CONTROL_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "common/control/peer_check.h"
#include "common/limits/limits.h"
#include "common/unique_fd.h"

namespace strata::control {

// For a process that speaks gRPC, at its start: what gRPC itself would log is left to the log level
// "debug" (a line for each connection, and for each stranger's), and the system's Abseil, whose
// locks gRPC uses, no longer looks for deadlocks at each lock.
void PrepareGrpc();

// The largest message either way; a placement of a million chunks has a few MiB.
inline constexpr int kMessageBytesMax = kControlMessageBytesMax;

// How long a coordinator may be silent while something is asked of it. A host that vanished without
// closing its connections is noticed by pings.
inline constexpr absl::Duration kSilenceOfCalls = absl::Seconds(5);

// A channel to the coordinator at a HOST:PORT with connections of its own (no other channel's
// backoff delays it), past any HTTP proxy of the environment. Connects when first used.
struct Line {
  std::shared_ptr<grpc::Channel> channel;
  // What was wrong with who answered there.
  std::shared_ptr<const PeerCheck> check;

  // Waits until it is up. Errors: Unavailable (not in time; no text); Unauthenticated: who answers
  // there is not the cluster's coordinator, and why.
  absl::Status Await(absl::Time until) const;
};
struct LineLimits {
  absl::Duration silence = kSilenceOfCalls;
  absl::Duration connect = absl::Seconds(5);  // each try, with its handshake
};
// Errors: FailedPrecondition: no keys, or keys that cannot be used, and what to do.
absl::StatusOr<Line> LineTo(const std::string& address, const Credentials& credentials,
                            const LineLimits& limits = {});
// Returns a channel over a connected socket, and no other ever: its end is the socket's.
std::shared_ptr<grpc::Channel> ChannelOn(UniqueFd fd);

// Returns a status of the same code and text.
absl::Status FromGrpc(const grpc::Status& status);

// Unavailable: "coordinator at HOST:PORT cannot be reached (tried for 30s): connection refused".
absl::Status Unreachable(const std::string& address, const std::string& tried_for,
                         const std::string& why);
// FailedPrecondition: "coordinator at HOST:PORT: ...".
absl::Status Refused(const std::string& address, const std::string& why);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_CHANNEL_H_

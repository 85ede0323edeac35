#ifndef STRATA_COMMON_CONTROL_CHANNEL_H_
#define STRATA_COMMON_CONTROL_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/control/addresses.h"
#include "common/control/credentials.h"
#include "common/keys/certificate.h"
#include "common/keys/verify.h"
#include "common/os/limits.h"
#include "common/unique_fd.h"

namespace strata::control {

// Checks that the peer is the coordinator of a trusted cluster. TLS itself has already proved that
// the peer holds its certificate's private key; everything else about the certificate is checked
// here instead of in gRPC, which would only report that the handshake failed.
//
// Threads: any.
class PeerCheck {
 public:
  // Trusts the cluster's authorities.
  explicit PeerCheck(keys::Trust trust) : trust_(std::move(trust)) {}
  // Trusts the authority with this SHA-256, which the peer must show, too.
  explicit PeerCheck(std::string authority) : authority_(std::move(authority)) {}

  // Errors: Unauthenticated; kept.
  absl::Status Check(const std::vector<keys::Certificate>& chain, absl::Time now);
  // The result for the newest connection.
  absl::Status last() const;

 private:
  absl::Status Judge(const std::vector<keys::Certificate>& chain, absl::Time now) const;

  const keys::Trust trust_;
  const std::string authority_;
  mutable absl::Mutex mutex_;
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
};

// For gRPC.
std::shared_ptr<grpc::experimental::CertificateVerifier> VerifierOf(
    std::shared_ptr<PeerCheck> check);

// Call it at the start of a process that uses gRPC: gRPC's own log lines (one for each connection,
// strangers' included) move to the log level "debug", and the system's Abseil, whose locks gRPC
// uses, no longer looks for deadlocks at each lock.
void PrepareGrpc();

// The largest message either way; a placement of a million chunks has a few MiB.
inline constexpr int kMessageBytesMax = kControlMessageBytesMax;

// How long a coordinator may be silent during a call. Pings notice a host that vanished without
// closing its connections.
inline constexpr absl::Duration kSilenceOfCalls = absl::Seconds(5);

// A channel to the coordinator at a HOST:PORT with connections of its own (no other channel's
// backoff delays it), past any HTTP proxy of the environment. Connects when first used.
struct Line {
  std::shared_ptr<grpc::Channel> channel;
  // Why the peer was refused.
  std::shared_ptr<const PeerCheck> check;

  // Waits until it is up. Errors: Unavailable (not in time; no text); Unauthenticated: the peer is
  // not the cluster's coordinator, and why.
  absl::Status Await(absl::Time until) const;
};
struct LineLimits {
  absl::Duration silence = kSilenceOfCalls;
  absl::Duration connect = absl::Seconds(5);  // per try, including its handshake
};
// Errors: FailedPrecondition: no keys, or unusable keys, and what to do.
absl::StatusOr<Line> LineTo(const std::string& address, const Credentials& credentials,
                            const LineLimits& limits = {});
// Returns a channel over this connected socket only: it ends with the socket.
std::shared_ptr<grpc::Channel> ChannelOn(UniqueFd fd);

// Returns a status of the same code and text.
absl::Status FromGrpc(const grpc::Status& status);

// Unavailable: "coordinator at HOST:PORT cannot be reached (tried for 30s): connection refused".
absl::Status Unreachable(const std::string& address, const std::string& tried_for,
                         const std::string& why);
// FailedPrecondition: "coordinator at HOST:PORT: ...".
absl::Status Refused(const std::string& address, const std::string& why);

// How long a silent address is tried if there are others.
inline constexpr absl::Duration kTryOfSeveral = absl::Seconds(1);

// Connects to the coordinator for one call or stream: to the round's address, or over the Unix
// socket that `coordinator` names. Waits until it is reachable, up to `until`; with several
// addresses up to a second. Errors: Unavailable: it is not reachable by then, possibly without a
// text; FailedPrecondition: there are no keys for it, or the peer is not trusted; PermissionDenied:
// another user listens at the Unix socket.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelTo(const std::string& coordinator,
                                                         const AddressRound& round,
                                                         const Credentials& credentials,
                                                         absl::Time until);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_CHANNEL_H_

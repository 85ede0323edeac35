#ifndef STRATA_COMMON_CONTROL_PEER_CHECK_H_
#define STRATA_COMMON_CONTROL_PEER_CHECK_H_

#include <grpcpp/security/tls_certificate_verifier.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/keys/certificate.h"
#include "common/keys/verify.h"

namespace strata::control {

// Whether who answers is the coordinator of a cluster that is trusted. TLS itself has shown by then
// that the other side has its certificate's key; all else about the certificate is looked at here,
// in place of gRPC, which would say no more than that the handshake failed.
//
// Threads: any.
class PeerCheck {
 public:
  // Trusts the cluster's authorities.
  explicit PeerCheck(keys::Trust trust) : trust_(std::move(trust)) {}
  // Trusts the one with this SHA-256, which the other side is to show, too.
  explicit PeerCheck(std::string authority) : authority_(std::move(authority)) {}

  // Errors: Unauthenticated; kept.
  absl::Status Check(const std::vector<keys::Certificate>& chain, absl::Time now);
  // Of the newest connection.
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

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_PEER_CHECK_H_

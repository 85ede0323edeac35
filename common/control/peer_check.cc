#include "common/control/peer_check.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/keys/identity.h"

namespace strata::control {
namespace {

class Verifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit Verifier(std::shared_ptr<PeerCheck> check) : check_(std::move(check)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* answer) override {
    const grpc::string_ref text = request->peer_cert_full_chain();
    const auto chain = keys::CertificatesFromPem(std::string(text.data(), text.size()));
    const absl::Status good =
        check_->Check(chain.ok() ? *chain : std::vector<keys::Certificate>(), absl::Now());
    if (!good.ok()) {
      *answer = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, std::string(good.message()));
    }
    return true;  // at once
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<PeerCheck> check_;
};

}  // namespace

absl::Status PeerCheck::Judge(const std::vector<keys::Certificate>& chain, absl::Time now) const {
  if (chain.empty()) {
    return absl::UnauthenticatedError("what answers there shows no certificate that can be read");
  }
  keys::Trust trust = trust_;
  if (!authority_.empty()) {
    for (const keys::Certificate& shown : chain) {
      if (shown.fingerprint() == authority_) trust.roots.push_back(shown);
    }
    if (trust.roots.empty()) {
      return absl::UnauthenticatedError(
          "what answers there is not of the cluster that the token is of: the token is for another "
          "coordinator, or somebody is in between");
    }
    const auto identity = chain.front().identity();
    if (identity.ok()) trust.cluster = identity->cluster;
  }
  const absl::StatusOr<keys::Identity> identity = keys::Verify(chain, trust, now);
  if (!identity.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("what answers there cannot be trusted: ", identity.status().message()));
  }
  if (identity->role != keys::Role::kCoordinator) {
    return absl::UnauthenticatedError(
        absl::StrCat("what answers there is no coordinator but ", keys::IdentityText(*identity)));
  }
  return absl::OkStatus();
}

absl::Status PeerCheck::Check(const std::vector<keys::Certificate>& chain, absl::Time now) {
  absl::Status status = Judge(chain, now);
  absl::MutexLock lock(&mutex_);
  last_ = status;
  return status;
}

absl::Status PeerCheck::last() const {
  absl::MutexLock lock(&mutex_);
  return last_;
}

std::shared_ptr<grpc::experimental::CertificateVerifier> VerifierOf(
    std::shared_ptr<PeerCheck> check) {
  return grpc::experimental::ExternalCertificateVerifier::Create<Verifier>(std::move(check));
}

}  // namespace strata::control

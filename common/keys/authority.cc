#include "common/keys/authority.h"

#include <openssl/obj_mac.h>

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/keys/certificate.h"
#include "common/keys/private_key.h"

namespace strata::keys {
namespace {

// Names may exceed the limit of common names; the identity is in the URI.
std::string CommonName(const std::string& text) {
  constexpr size_t kCommonNameMax = 64;
  return text.substr(0, kCommonNameMax);
}

absl::StatusOr<Certificate> MakeRoot(const std::string& cluster, const PrivateKey& key,
                                     absl::Time not_before, absl::Time not_after) {
  CertificateContent content;
  content.subject = CommonName(absl::StrCat("strata ", cluster));
  content.not_before = not_before;
  content.not_after = not_after;
  content.extensions = {
      {NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
      {NID_key_usage, "critical,keyCertSign,cRLSign"},
      {NID_subject_alt_name, absl::StrCat("URI:", ToClusterUri(cluster))},
  };
  return SignCertificate(content, key.get(), nullptr, key);
}

// Returns the cluster of a root. Errors: InvalidArgument: it is not a root.
absl::StatusOr<std::string> ClusterOfRoot(const Certificate& root) {
  if (!root.IsAuthority() || !root.IsSelfSigned()) {
    return absl::InvalidArgumentError(absl::StrCat("the certificate with fingerprint ",
                                                   FingerprintText(root.fingerprint()),
                                                   " is not the root of an authority"));
  }
  const absl::StatusOr<std::vector<std::string>> uris = root.uris();
  if (!uris.ok()) return uris.status();
  if (uris->size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the root with fingerprint ", FingerprintText(root.fingerprint()),
                     " does not name its cluster: one URI spiffe://CLUSTER does"));
  }
  return ParseClusterUri(uris->front());
}

}  // namespace

absl::StatusOr<Authority> Authority::Make(const std::string& cluster, absl::Time now,
                                          absl::Duration valid_for) {
  if (absl::Status status = CheckCluster(cluster); !status.ok()) return status;
  if (valid_for <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError("an authority must be valid for some time");
  }
  absl::StatusOr<PrivateKey> key = PrivateKey::Make();
  if (!key.ok()) return key.status();
  absl::StatusOr<Certificate> root =
      MakeRoot(cluster, *key, now - kClockDifference, now + valid_for);
  if (!root.ok()) return root.status();
  return Authority(cluster, *std::move(key), {*std::move(root)});
}

absl::StatusOr<Authority> Authority::FromPem(absl::string_view pem) {
  absl::StatusOr<PrivateKey> key = PrivateKey::FromPem(pem);
  if (!key.ok()) return key.status();
  absl::StatusOr<std::vector<Certificate>> roots = CertificatesFromPem(pem);
  if (!roots.ok()) return roots.status();
  if (!roots->front().BelongsTo(*key)) {
    return absl::InvalidArgumentError(
        "the authority's private key does not belong to its first root certificate");
  }
  std::string cluster;
  for (const Certificate& root : *roots) {
    absl::StatusOr<std::string> its = ClusterOfRoot(root);
    if (!its.ok()) return its.status();
    if (cluster.empty()) cluster = *its;
    if (*its != cluster) {
      return absl::InvalidArgumentError(
          absl::StrCat("the roots are of two clusters: ", cluster, " and ", *its));
    }
  }
  return Authority(std::move(cluster), *std::move(key), *std::move(roots));
}

std::string Authority::ToPem() const { return key_.ToPem() + RootsPem(); }

absl::StatusOr<Authority> Authority::Rotated(absl::Time now, absl::Duration valid_for) const {
  absl::StatusOr<Authority> rotated = Make(cluster_, now, valid_for);
  if (!rotated.ok()) return rotated.status();
  for (const Certificate& root : roots_) {
    if (rotated->roots_.size() > kOldRootsMax) break;
    if (root.not_after() >= now) rotated->roots_.push_back(root);
  }
  return rotated;
}

absl::StatusOr<Certificate> Authority::Issue(const CertificateRequest& request,
                                             const Identity& identity, absl::Time not_before,
                                             absl::Time not_after) const {
  if (absl::Status status = CheckName(identity.name); !status.ok()) return status;
  if (identity.cluster != cluster_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the authority of cluster ", cluster_, " cannot make a certificate for ",
                     IdentityText(identity), " of cluster ", identity.cluster));
  }
  if (not_after <= not_before) {
    return absl::InvalidArgumentError("a certificate must be valid for some time");
  }
  const Certificate& root = roots_.front();
  if (root.not_after() <= not_before) {
    return absl::FailedPreconditionError(absl::StrCat("the authority of cluster ", cluster_,
                                                      " expired at ", TimeText(root.not_after()),
                                                      ": make a new one"));
  }
  CertificateContent content;
  content.subject = CommonName(identity.name);
  content.not_before = not_before;
  content.not_after = std::min(not_after, root.not_after());
  content.extensions = {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth,clientAuth"},
      {NID_subject_alt_name, absl::StrCat("URI:", ToUri(identity))},
  };
  return SignCertificate(content, request.public_key(), &root, key_);
}

absl::StatusOr<KeyFile> IssueKeyFile(const Authority& authority, const Identity& identity,
                                     absl::Time not_before, absl::Time not_after) {
  const absl::StatusOr<PrivateKey> key = PrivateKey::Make();
  if (!key.ok()) return key.status();
  const absl::StatusOr<std::string> pem = MakeRequestPem(*key);
  if (!pem.ok()) return pem.status();
  const absl::StatusOr<CertificateRequest> request = CertificateRequest::FromPem(*pem);
  if (!request.ok()) return request.status();
  const auto certificate = authority.Issue(*request, identity, not_before, not_after);
  if (!certificate.ok()) return certificate.status();
  return KeyFile{*key, {*certificate}, authority.roots(), identity};
}

}  // namespace strata::keys

#ifndef STRATA_COMMON_KEYS_AUTHORITY_H_
#define STRATA_COMMON_KEYS_AUTHORITY_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/keys/certificate.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"
#include "common/keys/private_key.h"

namespace strata::keys {

// A cluster's certificate authority: a private key, its self-signed root certificate, and the roots
// of earlier keys, which are still trusted. Copies share the key; nothing changes: any thread may
// use it.
class Authority {
 public:
  // Rotated keeps this many earlier roots.
  static constexpr size_t kOldRootsMax = 2;
  // A new root is valid from this long before `now`, for hosts whose clocks are behind.
  static constexpr absl::Duration kClockDifference = absl::Hours(1);

  // A new key and its root, valid until `now` + `valid_for`. Errors: InvalidArgument: the cluster's
  // name (see CheckCluster) or a `valid_for` of nothing; Internal: the system has no randomness.
  static absl::StatusOr<Authority> Make(const std::string& cluster, absl::Time now,
                                        absl::Duration valid_for);

  // Reads a private key and root certificates, the first of which belongs to the key. Errors:
  // InvalidArgument: one is missing or damaged, they do not match, or a certificate is not a root
  // of the cluster.
  static absl::StatusOr<Authority> FromPem(absl::string_view pem);

  // The private key and all roots: a secret.
  std::string ToPem() const;

  const std::string& cluster() const { return cluster_; }
  // The roots to trust; the first is the one that signs.
  const std::vector<Certificate>& roots() const { return roots_; }
  std::string RootsPem() const { return CertificatesToPem(roots_); }

  // An authority with a new key, which still trusts this one's roots, except those that expired
  // before `now`. Errors: those of Make.
  absl::StatusOr<Authority> Rotated(absl::Time now, absl::Duration valid_for) const;

  // A certificate for the requester's key, for clients and servers of TLS. It ends with the root if
  // `not_after` is later. Errors: InvalidArgument: another cluster's identity, a name as of
  // CheckName, or `not_after` at or before `not_before`; FailedPrecondition: the root has expired
  // at `not_before`.
  absl::StatusOr<Certificate> Issue(const CertificateRequest& request, const Identity& identity,
                                    absl::Time not_before, absl::Time not_after) const;

  // The key that signs. Only Issue and tests need it.
  const PrivateKey& key() const { return key_; }

 private:
  Authority(std::string cluster, PrivateKey key, std::vector<Certificate> roots)
      : cluster_(std::move(cluster)), key_(std::move(key)), roots_(std::move(roots)) {}

  std::string cluster_;
  PrivateKey key_;
  std::vector<Certificate> roots_;
};

// Makes a key and the authority's certificate for it, for a member that the authority's holder
// admits without a request. Errors: those of PrivateKey::Make and Authority::Issue.
absl::StatusOr<KeyFile> IssueKeyFile(const Authority& authority, const Identity& identity,
                                     absl::Time not_before, absl::Time not_after);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_AUTHORITY_H_

#ifndef STRATA_COMMON_KEYS_VERIFY_H_
#define STRATA_COMMON_KEYS_VERIFY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/keys/certificate.h"
#include "common/keys/identity.h"

namespace strata::keys {

// The cluster and roots that a process trusts.
struct Trust {
  std::string cluster;
  std::vector<Certificate> roots;  // self-signed
};

// The process that checks a certificate, for error messages.
struct Judge {
  std::string clock = "this host's clock";
  // Whether `strata keys` makes tokens for new certificates here; otherwise another authority
  // issues them.
  bool makes_tokens = true;
};

// The command that gets a member with a token a new certificate, for messages. An invalid name
// counts as unknown.
std::string RenewHint(Role role, absl::string_view name);

// Verifies a chain of certificates, leaf first, against the roots, and returns the leaf's identity.
// The TLS handshake proves that the peer has the leaf's private key. Errors: Unauthenticated, one
// line that says what to do: the leaf is signed by another authority or not at all, has expired, is
// not valid yet, carries no identity or one of another cluster, is an authority's own, or is not
// for TLS. A user's certificate may be for clients only; others are for both sides.
absl::StatusOr<Identity> Verify(const std::vector<Certificate>& chain, const Trust& trust,
                                absl::Time now, const Judge& judge = {});

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_VERIFY_H_

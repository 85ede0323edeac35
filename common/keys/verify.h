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

// Whom a process believes.
struct Trust {
  std::string cluster;
  std::vector<Certificate> roots;  // self-signed
};

// The process that checks a certificate against the roots, for error messages.
struct Judge {
  std::string clock = "this host's clock";
  // True: `strata keys` makes tokens for new certificates here; else another authority issues them.
  bool makes_tokens = true;
};

// The command that gets a member with a token a new certificate, for messages. A name that does not
// fit counts as unknown.
std::string RenewHint(Role role, absl::string_view name);

// Holds a chain of certificates, the leaf first, against the roots, and returns the leaf's
// identity. That the peer has the leaf's private key is for the TLS handshake to show. Errors:
// Unauthenticated, one line that says what to do: it is signed by another authority or not at all,
// has expired, is not valid yet, carries no identity or one of another cluster, is an authority's
// own, or is not for TLS. A user's certificate may be for clients only; others are for both sides.
absl::StatusOr<Identity> Verify(const std::vector<Certificate>& chain, const Trust& trust,
                                absl::Time now, const Judge& judge = {});

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_VERIFY_H_

#ifndef STRATA_COMMON_KEYS_JOIN_TOKEN_H_
#define STRATA_COMMON_KEYS_JOIN_TOKEN_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/keys/identity.h"

namespace strata::keys {

// The token that lets a new member join: the fingerprint authenticates the cluster to the member,
// the secret the member to the cluster.
struct JoinToken {
  std::string authority;  // the root's fingerprint, 32 bytes
  std::string secret;     // 16 bytes
};

// A token with a new secret for the authority with this root. Errors: InvalidArgument: the
// fingerprint does not have 32 bytes; Internal: the system has no randomness.
absl::StatusOr<JoinToken> MakeJoinToken(absl::string_view fingerprint);

// "strata1.FINGERPRINT.SECRET", both in base64 for URLs without padding: 43 and 22 characters.
std::string ToText(const JoinToken& token);
// Parses what ToText returns, ignoring surrounding white space. Errors: InvalidArgument; they never
// repeat a part of the text, since it may be the secret.
absl::StatusOr<JoinToken> ParseJoinToken(absl::string_view text);

// SHA-256 of the secret, 32 bytes: what is stored of a token. The secret is random, so it cannot be
// found from this.
std::string SecretHash(absl::string_view secret);

// Returns the command that makes a token for such a member, for messages: "`strata keys user ada`",
// "`strata keys token worker`". An invalid name counts as unknown.
std::string TokenCommand(Role role, absl::string_view name);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_JOIN_TOKEN_H_

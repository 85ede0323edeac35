#include "common/keys/join_token.h"

#include <openssl/rand.h>
#include <openssl/sha.h>

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/keys/openssl_pointers.h"
#include "common/require.h"

namespace strata::keys {
namespace {

constexpr absl::string_view kFormat = "strata1";
constexpr size_t kAuthorityBytes = SHA256_DIGEST_LENGTH;
constexpr size_t kSecretBytes = 16;

// Base64 without padding.
constexpr size_t Characters(size_t bytes) { return (bytes * 4 + 2) / 3; }
constexpr size_t kTokenCharacters =
    kFormat.size() + 1 + Characters(kAuthorityBytes) + 1 + Characters(kSecretBytes);

absl::Status NotWhole() {
  return absl::InvalidArgumentError(
      absl::StrCat("the token is cut off or has something added: one has ", kTokenCharacters,
                   " characters, copy it as `strata keys` printed it"));
}

// Returns false for invalid characters, or bits beyond the last byte.
bool DecodeJoinToken(absl::string_view text, std::string* bytes) {
  return absl::WebSafeBase64Unescape(text, bytes) && absl::WebSafeBase64Escape(*bytes) == text;
}

}  // namespace

absl::StatusOr<JoinToken> MakeJoinToken(absl::string_view fingerprint) {
  if (fingerprint.size() != kAuthorityBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the fingerprint of an authority has ",
                                                   kAuthorityBytes, " bytes, not ",
                                                   fingerprint.size()));
  }
  const ErrorQueueScope scope;
  JoinToken token{.authority = std::string(fingerprint), .secret = std::string(kSecretBytes, 0)};
  if (RAND_bytes(reinterpret_cast<unsigned char*>(token.secret.data()), kSecretBytes) != 1) {
    return absl::InternalError("cannot make a token: the system gives no random numbers");
  }
  return token;
}

std::string ToText(const JoinToken& token) {
  return absl::StrCat(kFormat, ".", absl::WebSafeBase64Escape(token.authority), ".",
                      absl::WebSafeBase64Escape(token.secret));
}

absl::StatusOr<JoinToken> ParseJoinToken(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (trimmed.empty()) {
    return absl::InvalidArgumentError(
        "the token is empty: `strata keys token`, for users `strata keys user`, makes one");
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(trimmed, absl::MaxSplits('.', 3));
  if (!absl::StartsWith(trimmed, "strata")) {
    return absl::InvalidArgumentError(absl::StrCat("this is no token: one begins with \"", kFormat,
                                                   ".\", as `strata keys` prints it"));
  }
  if (parts.size() > 1 && parts[0] != kFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token is not of the version that this program knows, ", kFormat,
                     ": use the same version of Strata on all hosts"));
  }
  if (parts.size() != 3 || parts[1].size() != Characters(kAuthorityBytes) ||
      parts[2].size() != Characters(kSecretBytes)) {
    return NotWhole();
  }
  JoinToken token;
  if (!DecodeJoinToken(parts[1], &token.authority) || !DecodeJoinToken(parts[2], &token.secret)) {
    return absl::InvalidArgumentError(
        "the token has characters that do not belong there: copy it as `strata keys` printed it");
  }
  return token;
}

std::string SecretHash(absl::string_view secret) {
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  STRATA_REQUIRE(EVP_Digest(secret.data(), secret.size(),
                            reinterpret_cast<unsigned char*>(hash.data()), nullptr, EVP_sha256(),
                            nullptr) == 1);
  return hash;
}

std::string TokenCommand(Role role, absl::string_view name) {
  if (role != Role::kUser) return absl::StrCat("`strata keys token ", RoleName(role), "`");
  return absl::StrCat("`strata keys user ", CheckName(name).ok() ? name : "NAME", "`");
}

}  // namespace strata::keys

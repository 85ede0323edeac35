#include "cli/web/login.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "common/require.h"

namespace strata::cli {
namespace {

constexpr size_t kSecretBytes = 32;

std::string RandomSecret() {
  std::string bytes(kSecretBytes, '\0');
  STRATA_REQUIRE(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), kSecretBytes) == 1);
  return absl::WebSafeBase64Escape(bytes);
}

}  // namespace

bool SameSecret(absl::string_view one, absl::string_view other) {
  return one.size() == other.size() && CRYPTO_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string CookieValue(absl::string_view header, absl::string_view name) {
  for (const absl::string_view part : absl::StrSplit(header, ';')) {
    const std::pair<absl::string_view, absl::string_view> cookie =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('=', 1));
    if (cookie.first == name) return std::string(cookie.second);
  }
  return "";
}

Login::Login() : token_(RandomSecret()) {}

std::string Login::Open(absl::string_view token, absl::Time now) {
  if (!SameSecret(token, token_)) return "";
  token_ = RandomSecret();
  while (!sessions_.empty() && sessions_.front().until <= now) sessions_.pop_front();
  if (sessions_.size() == kSessionsMax) sessions_.pop_front();
  sessions_.push_back({RandomSecret(), now + kSessionLasts});
  return sessions_.back().secret;
}

bool Login::IsOpen(absl::string_view secret, absl::Time now) const {
  bool is_open = false;
  for (const Session& session : sessions_) {
    is_open |= SameSecret(session.secret, secret) && now < session.until;
  }
  return is_open;
}

}  // namespace strata::cli

#ifndef STRATA_CLI_WEB_LOGIN_H_
#define STRATA_CLI_WEB_LOGIN_H_

#include <cstddef>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace strata::cli {

// Decides who may view: the newest link opens a session once. Secrets are 256 random bits from
// OpenSSL and compared in constant time. Calls bring the time.
//
// Threads: one at a time.
class Login {
 public:
  static constexpr size_t kSessionsMax = 64;
  static constexpr absl::Duration kSessionLasts = absl::Hours(12);

  Login();

  // The token that opens a session now.
  const std::string& token() const { return token_; }
  // Returns the secret of a new session, and makes a new token; empty: wrong token. Beyond the
  // maximum the oldest session ends.
  std::string Open(absl::string_view token, absl::Time now);
  // Returns whether this is the secret of an open session.
  bool IsOpen(absl::string_view secret, absl::Time now) const;

 private:
  struct Session {
    std::string secret;
    absl::Time until;
  };
  std::string token_;
  std::deque<Session> sessions_;  // the oldest first
};

// Compares two secrets in a time that reveals only their lengths.
bool SameSecret(absl::string_view one, absl::string_view other);
// The value of one cookie in a Cookie header; empty: missing.
std::string CookieValue(absl::string_view header, absl::string_view name);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_LOGIN_H_

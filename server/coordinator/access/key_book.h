#ifndef STRATA_SERVER_COORDINATOR_ACCESS_KEY_BOOK_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_KEY_BOOK_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/keys/identity.h"
#include "proto/keys.pb.h"

namespace strata::server {

// Which tokens are open, who has certificates, and whose are refused. Pure: nothing here signs,
// stores or reads a clock.
class KeyBook {
 public:
  static constexpr size_t kTokensMax = 1024;
  static constexpr size_t kKeysMax = 65536;
  static constexpr uint32_t kUsesMax = 4096;
  static constexpr absl::Duration kTtlMax = absl::Hours(24 * 30);
  // How long certificates live. Daemons renew theirs by themselves, users with what they do.
  static constexpr absl::Duration kDaemonLife = absl::Hours(24 * 7);
  static constexpr absl::Duration kUserLife = absl::Hours(24 * 30);
  // A certificate begins so long before it is issued, for hosts whose clocks are behind.
  static constexpr absl::Duration kClockDifference = absl::Minutes(5);

  // Whose a certificate is, and when it is valid.
  struct Grant {
    std::string name;
    absl::Time begins;
    absl::Time ends;
  };

  explicit KeyBook(proto::KeyBookRecord record = {});
  // The record that a later KeyBook continues from.
  proto::KeyBookRecord Record() const;

  // Opens a token. Errors: InvalidArgument (roles, name, time, uses, a user's
  // grant), ResourceExhausted.
  absl::Status AddToken(const std::string& secret_hash, const proto::MakeTokenRequest& request,
                        absl::Time now);
  bool HasToken(const std::string& secret_hash) const { return tokens_.count(secret_hash) > 0; }
  // PermissionDenied, with what to do, for who wanted to join with it.
  static absl::Status UnknownToken(keys::Role role, const std::string& name);
  // Uses a token up. `name` may be empty: the token's. Errors: PermissionDenied: there is none, it
  // is used up, too late, or for other roles or another name; AlreadyExists: the name is in use;
  // InvalidArgument: no such role or name.
  absl::StatusOr<Grant> Join(const std::string& secret_hash, keys::Role role,
                             const std::string& name, absl::Time now);
  // The next certificate of one whose present one counts.
  absl::StatusOr<Grant> Renew(keys::Role role, const std::string& name, absl::Time now);
  // `authority`: SHA-256 of the root, in hex, that has signed it.
  void Note(keys::Role role, const std::string& name, const std::string& authority);

  // Refuses what the name has until now, and closes the tokens for that name alone. Errors:
  // InvalidArgument (role; several have the name), NotFound: nobody has the name.
  absl::StatusOr<std::pair<keys::Role, std::string>> Revoke(const proto::RevokeRequest& request,
                                                            absl::Time now);
  // The grant that a token gave a user; null: none.
  const proto::UserGrant* GrantOf(const std::string& user) const;
  bool has_grants() const;

  // Returns whether a certificate that begins then was revoked.
  bool IsRevoked(keys::Role role, const std::string& name, absl::Time begins) const;
  // When what a user has was revoked, where nothing was issued to them since; InfinitePast: it was
  // not. Whoever asked for something after that has shown a newer certificate.
  absl::Time RevokedUntil(const std::string& user) const;

  // Closes all tokens; returns how many.
  size_t CloseTokens();

  // Drops what no longer matters: tokens that are too late, names whose certificates ended long
  // ago.
  void Forget(absl::Time now);

 private:
  using Name = std::pair<keys::Role, std::string>;

  absl::StatusOr<Grant> GrantTo(const Name& name, absl::Time now);

  std::map<Name, proto::IssuedKey> keys_;
  std::map<std::string, proto::OpenToken> tokens_;  // by the secret's hash
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_KEY_BOOK_H_

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

// Keeps the open tokens, the holders of certificates, and the revocations. Pure: it neither signs,
// stores nor reads a clock.
class KeyBook {
 public:
  static constexpr size_t kTokensMax = 1024;
  static constexpr size_t kKeysMax = 65536;
  static constexpr uint32_t kUsesMax = 4096;
  static constexpr absl::Duration kTtlMax = absl::Hours(24 * 30);
  // Validity of certificates. Daemons renew theirs by themselves, users whenever they make a call.
  static constexpr absl::Duration kDaemonLife = absl::Hours(24 * 7);
  static constexpr absl::Duration kUserLife = absl::Hours(24 * 30);
  // Certificates are backdated by this much, for hosts whose clocks are behind.
  static constexpr absl::Duration kClockDifference = absl::Minutes(5);

  // A certificate's holder and validity.
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
  // Returns PermissionDenied, with what to do, for a caller that tried to join with an unknown
  // token.
  static absl::Status UnknownToken(keys::Role role, const std::string& name);
  // Uses up a token. An empty `name` stands for the token's. Errors: PermissionDenied: the token is
  // unknown, used up, expired, or for other roles or another name; AlreadyExists: the name is in
  // use; InvalidArgument: bad role or name.
  absl::StatusOr<Grant> Join(const std::string& secret_hash, keys::Role role,
                             const std::string& name, absl::Time now);
  // Grants the next certificate to a member whose present one is valid.
  absl::StatusOr<Grant> Renew(keys::Role role, const std::string& name, absl::Time now);
  // Notes that the member got a certificate. `authority`: SHA-256, in hex, of the root that signed
  // it.
  void Note(keys::Role role, const std::string& name, const std::string& authority);

  // Revokes all of the name's certificates issued so far, and closes the tokens for that name
  // alone. Errors: InvalidArgument: bad role, or several roles have the name; NotFound: nobody has
  // the name.
  absl::StatusOr<std::pair<keys::Role, std::string>> Revoke(const proto::RevokeRequest& request,
                                                            absl::Time now);
  // Returns the grant that a token gave a user; null: none.
  const proto::UserGrant* GrantOf(const std::string& user) const;
  bool has_grants() const;

  // Returns whether a certificate that begins at `begins` was revoked.
  bool IsRevoked(keys::Role role, const std::string& name, absl::Time begins) const;
  // Returns when the user's certificates were revoked, if none has been issued since; InfinitePast
  // if they were not. A user who asked for anything after that has shown a newer certificate.
  absl::Time RevokedUntil(const std::string& user) const;

  // Closes all tokens; returns how many.
  size_t CloseTokens();

  // Drops what no longer matters: expired tokens, and names whose certificates expired long ago.
  void Forget(absl::Time now);

 private:
  using Name = std::pair<keys::Role, std::string>;

  absl::StatusOr<Grant> GrantTo(const Name& name, absl::Time now);

  std::map<Name, proto::IssuedKey> keys_;
  std::map<std::string, proto::OpenToken> tokens_;  // by the secret's hash
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_KEY_BOOK_H_

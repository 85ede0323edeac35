#ifndef STRATA_COMMON_CONTROL_KEYS_CLIENT_H_
#define STRATA_COMMON_CONTROL_KEYS_CLIENT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "common/keys/identity.h"
#include "common/keys/join_token.h"
#include "common/keys/key_file.h"
#include "proto/keys.pb.h"

namespace strata::control {

// The coordinator's address, and how long to try to reach it.
struct KeysOptions {
  // "HOST:PORT", "unix:/PATH"; "HOST:PORT,HOST:PORT": the one that leads is found.
  std::string coordinator;
  Credentials credentials = {};  // with a HOST:PORT
  absl::Duration deadline = absl::Seconds(10);
};

// All calls block. Errors of each, besides those named: Unavailable, naming the address;
// FailedPrecondition: the peer is not trusted, or rejects the keys; PermissionDenied: the caller
// may not make the call; Unimplemented: the coordinator issues no certificates.

// Makes a key and gets a certificate for it. `options.credentials` is not used: the token names the
// trusted authority. Errors: PermissionDenied (the token: used, expired, for another role or name),
// AlreadyExists (the name is in use), InvalidArgument (the name).
absl::StatusOr<keys::KeyFile> Join(const KeysOptions& options, const keys::JoinToken& token,
                                   keys::Role role, const std::string& name);
// Gets a new key and certificate for the identity of the credentials.
absl::StatusOr<keys::KeyFile> Renew(const KeysOptions& options);

absl::StatusOr<std::string> MakeToken(const KeysOptions& options,
                                      const proto::MakeTokenRequest& request);
absl::StatusOr<proto::ListKeysReply> ListKeys(const KeysOptions& options);
// Returns whose certificates are refused from now on, and how many tokens were closed. Errors:
// NotFound.
absl::StatusOr<proto::RevokeReply> Revoke(const KeysOptions& options,
                                          const proto::RevokeRequest& request);

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_KEYS_CLIENT_H_

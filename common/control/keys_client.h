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

// Where the coordinator is, and how long it is tried to be reached.
struct KeysOptions {
  // "HOST:PORT", "unix:/PATH"; "HOST:PORT,HOST:PORT": of which one leads, and is found.
  std::string coordinator;
  Credentials credentials = {};  // with a HOST:PORT
  absl::Duration deadline = absl::Seconds(10);
};

// All calls block. Errors of each: Unavailable, naming the address; FailedPrecondition: what
// answers there is not to be trusted, or does not take the keys; PermissionDenied: the caller may
// not ask that; Unimplemented: the coordinator issues no certificates; besides those named.

// Makes a key and gets a certificate for it. `options.credentials` is not used: the token says whom
// to trust. Errors: PermissionDenied (the token: used, too late, for another role or name),
// AlreadyExists (the name is somebody else's), InvalidArgument (the name).
absl::StatusOr<keys::KeyFile> Join(const KeysOptions& options, const keys::JoinToken& token,
                                   keys::Role role, const std::string& name);
// A new key and certificate for the identity of the credentials.
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

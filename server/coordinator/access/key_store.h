#ifndef STRATA_SERVER_COORDINATOR_ACCESS_KEY_STORE_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_KEY_STORE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/keys/authority.h"
#include "common/keys/key_file.h"
#include "proto/keys.pb.h"

namespace strata::server {

// The key files in STATE/keys of a coordinator's state folder: authority.pem (the authority's key
// and roots), coordinator.pem (the coordinator's own certificate) and book.textproto (tokens,
// names). Only this user can read them. A cluster whose coordinator has them is one with keys.

// The keys that a coordinator starts with. `authority` is absent if another authority issues
// certificates.
struct StoredKeys {
  std::optional<keys::Authority> authority;
  std::optional<keys::KeyFile> own;
  proto::KeyBookRecord book;
};
// Returns an empty StoredKeys if the folder has no keys. Errors name the file.
absl::StatusOr<StoredKeys> LoadKeys(const std::string& state_dir);

// Returns whether a coordinator with this state admits members by itself.
bool HasAuthority(const std::string& state_dir);

// Creates a cluster's authority and the coordinator's own certificate. Returns the SHA-256 of the
// root. Errors: AlreadyExists: there are keys; InvalidArgument: the cluster's name.
absl::StatusOr<std::string> InitKeys(const std::string& state_dir, const std::string& cluster,
                                     absl::Time now);

// Creates the next authority, which issues certificates from the coordinator's next start. The
// previous authority stays trusted, and the coordinator keeps the certificate that it issued, until
// FinishRotation. If the previous authority has expired, it is dropped at once. Returns the SHA-256
// of the new root. Errors: NotFound: there are no keys; FailedPrecondition: a rotation is under
// way.
absl::StatusOr<std::string> RotateKeys(const std::string& state_dir, absl::Time now);
// Trusts only the newest authority from the coordinator's next start. Errors: NotFound;
// FailedPrecondition: no rotation is under way, or members still lack a certificate of the newest
// authority (unless `regardless`); names them.
absl::Status FinishRotation(const std::string& state_dir, bool regardless, absl::Time now);

absl::Status SaveBook(const std::string& state_dir, const proto::KeyBookRecord& book);

// Checks that a coordinator can show these keys. `origin` says where they come from; `renewal` is
// the command that gets new ones, quoted once they have expired. Errors, with what to do, in one
// line: FailedPrecondition: they are for another role, or not valid now.
absl::Status CheckOwnKeys(const keys::KeyFile& own, const std::string& origin,
                          const std::string& renewal, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_KEY_STORE_H_

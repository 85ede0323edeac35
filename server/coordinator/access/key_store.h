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

// The files in a coordinator's state folder, in STATE/keys, that make its cluster one with keys:
// authority.pem (its authority's key and roots), coordinator.pem (what it shows itself) and
// book.textproto (tokens, names). All are this user's alone.

// The keys that a coordinator starts with. `authority` is absent where another one issues
// certificates.
struct StoredKeys {
  std::optional<keys::Authority> authority;
  std::optional<keys::KeyFile> own;
  proto::KeyBookRecord book;
};
// Nothing in it: the folder has no keys. Errors name the file.
absl::StatusOr<StoredKeys> LoadKeys(const std::string& state_dir);

// Returns whether a coordinator with this state lets others in by itself.
bool HasAuthority(const std::string& state_dir);

// Makes the authority of a cluster, and the coordinator's own certificate. Returns SHA-256 of its
// root. Errors: AlreadyExists: there are keys; InvalidArgument (the cluster's name).
absl::StatusOr<std::string> InitKeys(const std::string& state_dir, const std::string& cluster,
                                     absl::Time now);

// Makes the next authority, which issues from the coordinator's next start on; the one before stays
// trusted, and the coordinator keeps its certificate of that one, until FinishRotation. Where the
// one before has expired, nothing of it stays. Returns SHA-256 of the new root. Errors: NotFound:
// there are no keys; FailedPrecondition: a rotation is under way.
absl::StatusOr<std::string> RotateKeys(const std::string& state_dir, absl::Time now);
// From the coordinator's next start on only the newest authority is trusted. Errors: NotFound;
// FailedPrecondition: no rotation is under way, or somebody has no certificate of the newest
// authority yet (unless `regardless`), and who.
absl::Status FinishRotation(const std::string& state_dir, bool regardless, absl::Time now);

absl::Status SaveBook(const std::string& state_dir, const proto::KeyBookRecord& book);

// Checks that a coordinator can show these keys; an error says what to do in one line. `origin` is
// where they come from; `renewal` is what gets new ones, said once they have expired. Errors:
// FailedPrecondition: they are another role's, or do not count now.
absl::Status CheckOwnKeys(const keys::KeyFile& own, const std::string& origin,
                          const std::string& renewal, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_KEY_STORE_H_

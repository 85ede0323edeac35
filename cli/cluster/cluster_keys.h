#ifndef STRATA_CLI_CLUSTER_CLUSTER_KEYS_H_
#define STRATA_CLI_CLUSTER_CLUSTER_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/cluster/cluster_life.h"
#include "common/keys/authority.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"
#include "common/unique_fd.h"

namespace strata::cli {

// An authority for a cluster that lives as long as one run, and a member's keys.
absl::StatusOr<keys::Authority> RunAuthority();
absl::StatusOr<keys::KeyFile> KeysForRun(const keys::Authority& authority, keys::Role role,
                                         const std::string& name);

// Gives every daemon of a cluster that lives as long as one command keys of its own, and returns
// this user's. The authority that signs them exists only in memory during the call: nobody joins
// later. Errors: Internal.
absl::StatusOr<keys::KeyFile> GiveKeys(std::vector<PlannedDaemon>* plan);

// A user's keys, where this user's other commands find them while this object lives.
class LentKeys {
 public:
  LentKeys() = default;
  LentKeys(const LentKeys&) = delete;
  ~LentKeys();

  // Errors: those of files.
  absl::Status Write(const keys::KeyFile& keys);
  // Empty: not written.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd locked_;  // while this process lives, others leave the file there
};

// Writes the keys of a cluster for one run into `folder`, as ROLE-NAME.pem: for all `members`, each
// "ROLE/NAME", including a coordinator and a user. Their authority is discarded, so nobody joins
// later, and keys from another call do not match these. After an error nothing is written. Errors:
// InvalidArgument (a bad or missing member; the folder has keys already), those of files.
absl::Status WriteKeysForRun(const std::vector<std::string>& members, const std::string& folder);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_CLUSTER_KEYS_H_

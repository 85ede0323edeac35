#ifndef STRATA_CLI_CLUSTER_RUN_KEYS_H_
#define STRATA_CLI_CLUSTER_RUN_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace strata::cli {

// Writes the keys of a cluster for one run into `folder`, as ROLE-NAME.pem: of all `members`, each
// "ROLE/NAME", a coordinator and a user among them. Their authority is gone then, so nobody joins
// later, and keys of another command do not go with these. Nothing is written where something is
// wrong. Errors: InvalidArgument (a member that is none; one that is missing; the folder has keys
// already), those of files.
absl::Status WriteKeysForRun(const std::vector<std::string>& members, const std::string& folder);

}  // namespace strata::cli

#endif  // STRATA_CLI_CLUSTER_RUN_KEYS_H_

#ifndef STRATA_SERVER_COORDINATOR_SERVICE_STATE_LOCK_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_STATE_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace strata::server {

// Makes a coordinator's state directory where there is none, and takes DIR/lock, which is held
// until the descriptor is closed: one coordinator per directory. Errors name it: Unavailable
// (another one has it), those of MakeOwnFolders, Internal.
absl::StatusOr<UniqueFd> LockState(const std::string& directory);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_STATE_LOCK_H_

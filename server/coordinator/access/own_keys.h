#ifndef STRATA_SERVER_COORDINATOR_ACCESS_OWN_KEYS_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_OWN_KEYS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/keys/key_file.h"

namespace strata::server {

// Whether a coordinator can show these keys, in one line that says what to do. `origin` is where
// they come from; `renewal` is what gets new ones, said once they have expired. Errors:
// FailedPrecondition: they are another role's, or do not count now.
absl::Status CheckOwnKeys(const keys::KeyFile& own, const std::string& origin,
                          const std::string& renewal, absl::Time now);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_OWN_KEYS_H_

#ifndef STRATA_COMMON_KEYS_ISSUE_KEY_FILE_H_
#define STRATA_COMMON_KEYS_ISSUE_KEY_FILE_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/keys/authority.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"

namespace strata::keys {

// A new key, and the authority's certificate for it: what a member has whom the authority's holder
// lets in without being asked. Errors: those of PrivateKey::Make and Authority::Issue.
absl::StatusOr<KeyFile> IssueKeyFile(const Authority& authority, const Identity& identity,
                                     absl::Time not_before, absl::Time not_after);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_ISSUE_KEY_FILE_H_

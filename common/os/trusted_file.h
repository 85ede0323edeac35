#ifndef STRATA_COMMON_OS_TRUSTED_FILE_H_
#define STRATA_COMMON_OS_TRUSTED_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace strata {

// Checks that only this user and root can replace a file whose code will be run: the file, each
// folder on its path and each link belong to one of them, and neither group nor others may write
// there. A sticky folder (/tmp) is fine, too, since only a file's owner can replace it there. The
// result stays valid: nobody else can change it.
//
// Errors name `path` and the problem: InvalidArgument (not an absolute path), NotFound,
// FailedPrecondition (others may replace it, or it is not a regular file), those of FileError.
absl::Status CheckTrusted(const std::string& path);

// Creates a folder and missing folders above it, each for this user alone (mode 0700), whatever the
// umask. An existing folder keeps its mode. Errors: those of FileError.
absl::Status MakeOwnFolders(const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_OS_TRUSTED_FILE_H_

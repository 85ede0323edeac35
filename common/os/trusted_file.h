#ifndef STRATA_COMMON_OS_TRUSTED_FILE_H_
#define STRATA_COMMON_OS_TRUSTED_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace strata {

// Checks that only this user and root can replace a file whose code will be run: the file, each
// folder that leads to it and each link on the way belong to one of them, and neither their group
// nor others may write there. A sticky folder (/tmp) is as good, since only the owner of a file in
// it can replace it. The answer lasts: nobody else can make it wrong.
//
// Errors name `path` and what is wrong on the way: InvalidArgument (no absolute path), NotFound,
// FailedPrecondition (others may replace it, or it is no regular file), those of FileError.
absl::Status CheckTrusted(const std::string& path);

// Makes a folder and missing folders above it, each for this user alone (mode 0700), whatever the
// umask. An existing folder keeps its mode. Errors: those of FileError.
absl::Status MakeOwnFolders(const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_OS_TRUSTED_FILE_H_

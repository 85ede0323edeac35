#ifndef STRATA_COMMON_FILE_TRUSTED_FILE_H_
#define STRATA_COMMON_FILE_TRUSTED_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace strata {

// Whether only this user and root can put something else in the place of a file whose code is to be
// run: it, each folder that leads to it and each link on the way belong to one of them, and neither
// their group nor others may write there. A sticky folder (/tmp) is as good, since what lies in it
// is its owner's to replace. The answer lasts: nobody else can make it wrong.
//
// Errors name `path` and what is wrong on the way: InvalidArgument (no absolute path), NotFound,
// FailedPrecondition (others may replace it, or it is no regular file), those of FileError.
absl::Status CheckTrusted(const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_FILE_TRUSTED_FILE_H_

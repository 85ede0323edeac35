#ifndef STRATA_COMMON_KEYS_PRIVATE_FILE_H_
#define STRATA_COMMON_KEYS_PRIVATE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::keys {

// The content of a file that holds a secret. Errors name the path: NotFound, PermissionDenied;
// FailedPrecondition: others may read or change it, it is neither this user's nor root's (root
// reads all), not a regular file, or larger than `bytes_max`; those of FileError. A link to such a
// file is followed.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t bytes_max);

// Writes a file for this user alone: mode 0600 from the beginning, whatever the umask. Readers,
// also after a crash, see the old content or all of the new one. Folders above it are made where
// they are missing, for this user alone. What root writes in another user's folder is that user's.
// Errors: those of FileError; no temporary file is left
// then.
absl::Status WritePrivateFile(const std::string& path, absl::string_view content);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_PRIVATE_FILE_H_

#ifndef STRATA_COMMON_KEYS_PRIVATE_FILE_H_
#define STRATA_COMMON_KEYS_PRIVATE_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::keys {

// Returns the content of a file with a secret. Errors name the path: NotFound, PermissionDenied;
// FailedPrecondition: others may read or change it, it belongs to neither this user nor root (root
// reads all), is not a regular file, or is larger than `bytes_max`; those of FileError. A link to
// such a file is followed.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t bytes_max);

// Writes a file for this user alone: mode 0600 from the beginning, whatever the umask. Readers,
// even after a crash, see either the old content or the whole new one. Missing parent folders are
// created, for this user alone. What root writes in another user's folder belongs to that user.
// Errors: those of FileError; no temporary file is left then.
absl::Status WritePrivateFile(const std::string& path, absl::string_view content);

}  // namespace strata::keys

#endif  // STRATA_COMMON_KEYS_PRIVATE_FILE_H_

#ifndef STRATA_COMMON_FILE_OWN_FOLDER_H_
#define STRATA_COMMON_FILE_OWN_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace strata {

// Makes a folder and those above it where they are missing, each for this user alone (mode 0700),
// whatever the umask. One that is there keeps its mode. Errors: those of FileError.
absl::Status MakeOwnFolders(const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_FILE_OWN_FOLDER_H_

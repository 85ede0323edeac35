#ifndef STRATA_COMMON_FILE_FILE_ERROR_H_
#define STRATA_COMMON_FILE_FILE_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace strata {

// An error of a system call on a file, with the code that fits errno: "PATH: no such file".
absl::Status FileError(int error_number, const std::string& path);

}  // namespace strata

#endif  // STRATA_COMMON_FILE_FILE_ERROR_H_

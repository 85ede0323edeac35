#include "common/file/file_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"

namespace strata {

absl::Status FileError(int error_number, const std::string& path) {
  const std::string text = absl::StrFormat("%s: %s", path, strerror(error_number));
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(text);
    case EISDIR:
    case EINVAL:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    default:
      return absl::UnknownError(text);
  }
}

}  // namespace strata

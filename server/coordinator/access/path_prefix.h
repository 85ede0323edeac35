#ifndef STRATA_SERVER_COORDINATOR_ACCESS_PATH_PREFIX_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_PATH_PREFIX_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::server {

// The form in which paths are compared: without empty parts, "." and a '/' at the end. What the
// path leads to is not looked at: links are followed by whoever opens it. Errors: InvalidArgument:
// it is neither absolute nor s3://BUCKET/..., has a part "..", or a zero byte.
absl::StatusOr<std::string> NormalPath(absl::string_view path);

// Whether a path is that of the prefix or lies below it. REQUIRES: both are of NormalPath.
bool LiesBelow(absl::string_view path, absl::string_view prefix);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_PATH_PREFIX_H_

#ifndef STRATA_CLI_OWN_BINARY_H_
#define STRATA_CLI_OWN_BINARY_H_

#include <filesystem>

#include "absl/status/statusor.h"

namespace strata::cli {

// Where this program lies, to start it again or to find what lies beside it. Errors: Internal.
absl::StatusOr<std::filesystem::path> OwnBinary();

}  // namespace strata::cli

#endif  // STRATA_CLI_OWN_BINARY_H_

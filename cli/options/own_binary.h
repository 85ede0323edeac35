#ifndef STRATA_CLI_OPTIONS_OWN_BINARY_H_
#define STRATA_CLI_OPTIONS_OWN_BINARY_H_

#include <filesystem>
#include <string>

#include "absl/status/statusor.h"
#include "common/version.h"

namespace strata::cli {

// Returns this program's path, to start it again or to find files beside it. Errors: Internal.
absl::StatusOr<std::filesystem::path> OwnBinary();

// Returns a file that goes with this program: beside it, or, if missing there, in Bazel's `package`
// if present. A file beside the program is not checked for existence. Errors: Internal.
absl::StatusOr<std::filesystem::path> FileOfProgram(const std::string& name,
                                                    const std::string& package);

// The output of `strata --version`. `strata launch` requires the same one of all hosts.
inline constexpr char kVersion[] = "strata " STRATA_VERSION;

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_OWN_BINARY_H_

#ifndef STRATA_CLI_PROGRAM_VERSION_H_
#define STRATA_CLI_PROGRAM_VERSION_H_

#include "common/version.h"

namespace strata::cli {

// What `strata --version` prints. `strata launch` asks that all hosts say the same.
inline constexpr char kVersion[] = "strata " STRATA_VERSION;

}  // namespace strata::cli

#endif  // STRATA_CLI_PROGRAM_VERSION_H_

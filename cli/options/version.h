#ifndef STRATA_CLI_OPTIONS_VERSION_H_
#define STRATA_CLI_OPTIONS_VERSION_H_

#include "common/version.h"

namespace strata::cli {

// The output of `strata --version`. `strata launch` requires the same one of all hosts.
inline constexpr char kVersion[] = "strata " STRATA_VERSION;

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_VERSION_H_

#ifndef STRATA_CLI_OPTIONS_STRAGGLER_OPTION_H_
#define STRATA_CLI_OPTIONS_STRAGGLER_OPTION_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::cli {

// The setting of the job (ApplySettings) that a straggler stands for: "node=1,slow=4x",
// "node=2,delay=30ms", "node=2,delay=30ms+-10ms" (or with the sign ±), or both slow and delay.
// Errors: InvalidArgument naming the part that is wrong.
absl::StatusOr<std::string> SettingOfStraggler(const std::string& text);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_STRAGGLER_OPTION_H_

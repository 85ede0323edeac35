#include <cstdio>

#include "absl/strings/str_replace.h"
#include "cli/program/invocation.h"
#include "common/log_format.h"

namespace strata::cli {

int PrintError(const std::string& text, int exit_status) {
  if (CurrentLogFormat() == LogFormat::kJson) {
    WriteJsonError(text);
    return exit_status;
  }
  std::string line = absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}});
  std::fprintf(stderr, "strata: error: %s\n", line.c_str());
  return exit_status;
}

int PrintError(const absl::Status& status) {
  bool input = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  return PrintError(std::string(status.message()), input ? kExitUsage : kExitFailed);
}

}  // namespace strata::cli

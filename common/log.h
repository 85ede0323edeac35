#ifndef STRATA_COMMON_LOG_H_
#define STRATA_COMMON_LOG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace strata {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Log lines go to stderr, one line each: UTC time, level, process name, text.
// Sets the level ("debug", "info", "warning", "error", "off") and the name that stands in each line
// ("server s1"). Call it in main before other threads start; until then the level is info and the
// name "strata". Errors: InvalidArgument naming the level.
absl::Status InitLogging(const std::string& level, const std::string& process_name);

// Whether lines of this level are written. Thread-safe.
bool IsLogged(LogLevel level);

// Writes one line; line breaks and other control characters in it are escaped, because text from
// peers and files ends up here. Thread-safe.
void Log(LogLevel level, const std::string& text);

// LogInfo("job %u: finished after %d steps", id, steps): checked like absl::StrFormat.
template <typename... Args>
void LogDebug(const absl::FormatSpec<Args...>& format, const Args&... args) {
  if (IsLogged(LogLevel::kDebug)) Log(LogLevel::kDebug, absl::StrFormat(format, args...));
}
template <typename... Args>
void LogInfo(const absl::FormatSpec<Args...>& format, const Args&... args) {
  if (IsLogged(LogLevel::kInfo)) Log(LogLevel::kInfo, absl::StrFormat(format, args...));
}
template <typename... Args>
void LogWarning(const absl::FormatSpec<Args...>& format, const Args&... args) {
  if (IsLogged(LogLevel::kWarning)) Log(LogLevel::kWarning, absl::StrFormat(format, args...));
}
template <typename... Args>
void LogError(const absl::FormatSpec<Args...>& format, const Args&... args) {
  if (IsLogged(LogLevel::kError)) Log(LogLevel::kError, absl::StrFormat(format, args...));
}

}  // namespace strata

#endif  // STRATA_COMMON_LOG_H_

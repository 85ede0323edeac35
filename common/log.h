#ifndef STRATA_COMMON_LOG_H_
#define STRATA_COMMON_LOG_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace strata {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

// Log lines go to stderr, one line each: UTC time, level, process name, text. InitLogging sets the
// level ("debug", "info", "warning", "error", "off") and the process name ("server s1"). Call it in
// main before other threads start; until then the level is info and the name "strata". Errors:
// InvalidArgument naming the level.
absl::Status InitLogging(const std::string& level, const std::string& process_name);

// Returns whether lines of this level are written. Thread-safe.
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

enum class LogFormat {
  kText,  // as described in log.h
  kJson,  // one JSON object a line
};

// "text", "json".
std::string LogFormatName(LogFormat format);

// Sets the format of this process's log lines. Call it in main before other threads start, before
// or after InitLogging; the default is text.
void SetLogFormat(LogFormat format);
// Thread-safe.
LogFormat CurrentLogFormat();

// Returns {"time":"2026-11-27T10:00:00.123Z","level":"info","source":"worker w2","message":"..."}:
// one line of ASCII without its end, whatever bytes are in `source` and `message`; invalid UTF-8
// becomes U+FFFD.
std::string JsonLogLine(absl::Time time, LogLevel level, absl::string_view source,
                        absl::string_view message);

// Writes the line to stderr at once, in kJson and at any level: for the error that ends a process.
void WriteJsonError(absl::string_view message);

// The content of one line.
struct LogLine {
  std::string level, message;
};
// Parses a line that JsonLogLine wrote; nullopt: the line is something else, such as other JSON.
std::optional<LogLine> ReadJsonLogLine(absl::string_view line);

}  // namespace strata

#endif  // STRATA_COMMON_LOG_H_

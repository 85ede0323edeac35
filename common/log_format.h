#ifndef STRATA_COMMON_LOG_FORMAT_H_
#define STRATA_COMMON_LOG_FORMAT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/log.h"

namespace strata {

enum class LogFormat {
  kText,  // as log.h says
  kJson,  // one JSON object a line
};

// "text", "json".
std::string LogFormatName(LogFormat format);

// Sets how this process writes its log lines. Call it in main before other threads start, before or
// after InitLogging; until then they are text.
void SetLogFormat(LogFormat format);
// Thread-safe.
LogFormat CurrentLogFormat();

// {"time":"2026-11-27T10:00:00.123Z","level":"info","source":"worker w2","message":"..."}: one line
// of ASCII without its end, whatever bytes are in `source` and `message`; what is not UTF-8 becomes
// U+FFFD.
std::string JsonLogLine(absl::Time time, LogLevel level, absl::string_view source,
                        absl::string_view message);

// Writes the line to stderr at once, in kJson and at any level: for the error that ends a process.
void WriteJsonError(absl::string_view message);

// What one line says.
struct LogLine {
  std::string level, message;
};
// Reads what JsonLogLine has written; nullopt: the line is something else, such as other JSON.
std::optional<LogLine> ReadJsonLogLine(absl::string_view line);

}  // namespace strata

#endif  // STRATA_COMMON_LOG_FORMAT_H_

#include "common/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/escape_line.h"

namespace strata {
namespace {

std::optional<LogLevel> ParseLevel(const std::string& level) {
  if (level == "debug") return LogLevel::kDebug;
  if (level == "info") return LogLevel::kInfo;
  if (level == "warning") return LogLevel::kWarning;
  if (level == "error") return LogLevel::kError;
  if (level == "off") return LogLevel::kOff;
  return std::nullopt;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

void SetProcessName(spdlog::logger& logger, const std::string& name) {
  const std::string escaped = absl::StrReplaceAll(name, {{"%", "%%"}});
  logger.set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %-7l [" + escaped + "] %v",
                     spdlog::pattern_time_type::utc);
}

// Lives until the process exits; threads must be joined before.
spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto instance = std::make_shared<spdlog::logger>(
        "strata", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    instance->set_level(spdlog::level::info);
    instance->flush_on(spdlog::level::debug);
    SetProcessName(*instance, "strata");
    return instance;
  }();
  return *logger;
}

}  // namespace

absl::Status InitLogging(const std::string& level, const std::string& process_name) {
  const std::optional<LogLevel> parsed = ParseLevel(level);
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "log level \"%s\" is none of debug, info, warning, error, off", EscapeLine(level)));
  }
  Logger().set_level(ToSpdlog(*parsed));
  SetProcessName(Logger(), EscapeLine(process_name));
  return absl::OkStatus();
}

bool IsLogged(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, const std::string& text) {
  Logger().log(ToSpdlog(level), EscapeLine(text));
}

}  // namespace strata

#include "common/log.h"

#include <spdlog/formatter.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"

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

LogLevel FromSpdlog(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::debug:
      return LogLevel::kDebug;
    case spdlog::level::info:
      return LogLevel::kInfo;
    case spdlog::level::warn:
      return LogLevel::kWarning;
    default:
      return LogLevel::kError;
  }
}

std::string LevelName(LogLevel level) {
  const spdlog::string_view_t name = spdlog::level::to_string_view(ToSpdlog(level));
  return std::string(name.data(), name.size());
}

class JsonFormatter final : public spdlog::formatter {
 public:
  explicit JsonFormatter(std::string source) : source_(std::move(source)) {}

  void format(const spdlog::details::log_msg& said, spdlog::memory_buf_t& line) override {
    const std::string text =
        JsonLogLine(absl::FromChrono(said.time), FromSpdlog(said.level), source_,
                    absl::string_view(said.payload.data(), said.payload.size())) +
        "\n";
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(source_);
  }

 private:
  const std::string source_;
};

// The format of lines. Changes only while the process has one thread.
struct Form {
  std::atomic<LogFormat> format = LogFormat::kText;
  std::string process_name = "strata";
};

Form& CurrentForm() {
  static Form form;
  return form;
}

void Apply(const Form& form, spdlog::logger& logger) {
  if (form.format == LogFormat::kJson) {
    logger.set_formatter(std::make_unique<JsonFormatter>(form.process_name));
    return;
  }
  const std::string escaped = absl::StrReplaceAll(form.process_name, {{"%", "%%"}});
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
    Apply(CurrentForm(), *instance);
    return instance;
  }();
  return *logger;
}

std::string Escape(const std::string& text) {
  std::string line;
  line.reserve(text.size());
  for (const unsigned char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else if ((c < 0x20 && c != '\t') || c == 0x7f) {
      line += absl::StrFormat("\\x%02x", c);
    } else {
      line += static_cast<char>(c);
    }
  }
  return line;
}

}  // namespace

absl::Status InitLogging(const std::string& level, const std::string& process_name) {
  const std::optional<LogLevel> parsed = ParseLevel(level);
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "log level \"%s\" is none of debug, info, warning, error, off", Escape(level)));
  }
  Logger().set_level(ToSpdlog(*parsed));
  CurrentForm().process_name = Escape(process_name);
  Apply(CurrentForm(), Logger());
  return absl::OkStatus();
}

bool IsLogged(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, const std::string& text) {
  // JSON has escapes of its own.
  const bool is_json = CurrentLogFormat() == LogFormat::kJson;
  Logger().log(ToSpdlog(level), is_json ? text : Escape(text));
}

std::string LogFormatName(LogFormat format) { return format == LogFormat::kJson ? "json" : "text"; }

void SetLogFormat(LogFormat format) {
  CurrentForm().format = format;
  Apply(CurrentForm(), Logger());
}

LogFormat CurrentLogFormat() { return CurrentForm().format; }

std::string JsonLogLine(absl::Time time, LogLevel level, absl::string_view source,
                        absl::string_view message) {
  nlohmann::ordered_json line;
  line["time"] = absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone());
  line["level"] = LevelName(level);
  line["source"] = std::string(source);
  line["message"] = std::string(message);
  // Only ASCII: no byte can control a terminal or end a line.
  return line.dump(-1, ' ', /*ensure_ascii=*/true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

void WriteJsonError(absl::string_view message) {
  const std::string line =
      JsonLogLine(absl::Now(), LogLevel::kError, CurrentForm().process_name, message);
  std::fprintf(stderr, "%s\n", line.c_str());
}

std::optional<LogLine> ReadJsonLogLine(absl::string_view line) {
  const auto read = nlohmann::json::parse(line.begin(), line.end(), nullptr,
                                          /*allow_exceptions=*/false);
  if (!read.is_object() || read.size() != 4) return std::nullopt;
  for (const char* field : {"time", "level", "source", "message"}) {
    if (!read.contains(field) || !read[field].is_string()) return std::nullopt;
  }
  return LogLine{read["level"], read["message"]};
}

}  // namespace strata

#include "cli/render/logs/log_lines.h"

#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "cli/render/terminal_control.h"

namespace strata::cli {
namespace {

constexpr char kEscape = '\x1b';

// How many bytes of a colour's sequence the text begins with: ESC [ 1 ; 31 m; 0: it is none.
size_t ColourBytes(absl::string_view text) {
  if (text.size() < 3 || text[0] != kEscape || text[1] != '[') return 0;
  size_t end = 2;
  while (end < text.size() && (absl::ascii_isdigit(text[end]) || text[end] == ';')) ++end;
  return end < text.size() && text[end] == 'm' ? end + 1 : 0;
}

nlohmann::ordered_json JsonOf(const proto::LogProcess& process) {
  nlohmann::ordered_json json;
  if (process.has_rank()) {
    json["rank"] = process.rank();
  } else if (process.has_aggregator_node()) {
    json["aggregator_node"] = process.aggregator_node();
  }
  return json;
}

std::string Line(const nlohmann::ordered_json& json) {
  // What is not UTF-8 becomes U+FFFD.
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

std::string PrefixOf(const proto::LogProcess& process) {
  if (process.has_rank()) return absl::StrCat("[", process.rank(), "] ");
  return absl::StrCat("[aggregator ", process.aggregator_node(), "] ");
}

// Null: without its colours.
std::string Shown(absl::string_view line, bool* coloured) {
  while (absl::ConsumeSuffix(&line, "\r")) {
  }
  const size_t begin = line.rfind('\r');
  if (begin != absl::string_view::npos) line.remove_prefix(begin + 1);
  std::string shown;
  while (!line.empty()) {
    size_t used = 1;
    if (const size_t colour = ColourBytes(line); colour > 0) {
      used = colour;
      if (coloured != nullptr) {
        *coloured = true;
        absl::StrAppend(&shown, line.substr(0, used));
      }
    } else if (const size_t control = ControlBytes(line); control == 2) {
      used = control;
      absl::StrAppendFormat(&shown, "\\u%04x", static_cast<unsigned char>(line[1]));
    } else if (control == 1 && line[0] != '\t') {
      absl::StrAppendFormat(&shown, "\\x%02x", static_cast<unsigned char>(line[0]));
    } else {
      shown.push_back(line[0]);
    }
    line.remove_prefix(used);
  }
  return shown;
}

}  // namespace

std::string TerminalLine(absl::string_view line) {
  bool coloured = false;
  std::string shown = Shown(line, &coloured);
  // What comes after it has colours of its own.
  if (coloured) absl::StrAppend(&shown, "\x1b[0m");
  return shown;
}

std::string PlainLine(absl::string_view line) { return Shown(line, nullptr); }

std::string LogLinesText(const proto::LogLines& lines, LogLinesForm form, bool with_process) {
  std::string text;
  const std::string prefix = with_process ? PrefixOf(lines.process()) : "";
  absl::string_view rest = lines.lines();
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const absl::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == absl::string_view::npos ? rest.size() : end + 1);
    switch (form) {
      case LogLinesForm::kRaw:
        absl::StrAppend(&text, prefix, line, "\n");
        break;
      case LogLinesForm::kTerminal:
        absl::StrAppend(&text, prefix, TerminalLine(line), "\n");
        break;
      case LogLinesForm::kJson: {
        nlohmann::ordered_json json = JsonOf(lines.process());
        json["line"] = std::string(line);
        text += Line(json);
        break;
      }
    }
  }
  return text;
}

std::string LogErrorJson(const proto::LogLines& lines) {
  nlohmann::ordered_json json = JsonOf(lines.process());
  json["error"] = lines.error();
  return Line(json);
}

}  // namespace strata::cli

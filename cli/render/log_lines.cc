#include "cli/render/log_lines.h"

#include <unistd.h>

#include <cstddef>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "cli/options/terminal.h"
#include "common/os/atomic_file.h"

namespace strata::cli {

namespace {

constexpr char kEscape = '\x1b';

// Returns the bytes of a colour sequence (ESC [ 1 ; 31 m) at the beginning of the text; 0: there is
// none.
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
  // Bytes that are not UTF-8 become U+FFFD.
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
    size_t used = CharacterBytes(line);
    if (const size_t colour = ColourBytes(line); colour > 0) {
      used = colour;
      if (coloured != nullptr) {
        *coloured = true;
        absl::StrAppend(&shown, line.substr(0, used));
      }
    } else if (line[0] != '\t') {
      absl::StrAppend(&shown, Escaped(line.substr(0, used)));
    } else {
      shown.push_back('\t');
    }
    line.remove_prefix(used);
  }
  return shown;
}

}  // namespace

std::string TerminalLine(absl::string_view line) {
  bool coloured = false;
  std::string shown = Shown(line, &coloured);
  // Text after the line has its own colours.
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

std::string LogTail::Read(bool all) {
  const LogCut cut = ReadLogCut(path_);
  const absl::StatusOr<UniqueFd> file = OpenRegularFile(path_, Links::kRefuse);
  if (!file.ok() || (cut.is_changing && !all)) return "";
  offset_ = MovedOffset(offset_, cut_, cut);
  cut_ = cut;
  std::string text(kBytesMax, '\0');
  const ssize_t got = pread(file->get(), text.data(), text.size(), static_cast<off_t>(offset_));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  // The bytes may have moved meanwhile; they are read again.
  if (!all && ReadLogCut(path_) != cut_) return "";
  // A line of more than is read at a time is cut.
  const bool is_full = text.size() == kBytesMax;
  const size_t end = text.rfind('\n');
  if (end != std::string::npos) {
    text.resize(all && !is_full ? text.size() : end + 1);
  } else if (!all && !is_full) {
    return "";
  }
  offset_ += text.size();
  if (!text.empty() && text.back() != '\n') text.push_back('\n');
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t stop = text.find('\n', begin);
    const absl::string_view line = absl::string_view(text).substr(begin, stop - begin);
    absl::StrAppend(&lines, prefix_, for_terminal_ ? TerminalLine(line) : std::string(line), "\n");
    begin = stop + 1;
  }
  return lines;
}

}  // namespace strata::cli

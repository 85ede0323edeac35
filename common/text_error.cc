#include "common/text_error.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata {
namespace {

bool IsNameCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Returns the offset of (line, column), both from 0, in the text.
size_t OffsetOf(const std::string& text, int line, int column) {
  size_t start = 0;
  for (int i = 0; i < line; ++i) {
    const size_t end = text.find('\n', start);
    if (end == std::string::npos) break;
    start = end + 1;
  }
  return std::min(start + column, text.size());
}

// The field whose value stands at `offset`: the name before the ':' before it. Empty when there is
// none.
std::string FieldBefore(const std::string& text, size_t offset) {
  size_t end = offset;
  while (end > 0 && std::isspace(static_cast<unsigned char>(text[end - 1]))) --end;
  if (end == 0 || text[end - 1] != ':') return "";
  --end;
  size_t begin = end;
  while (begin > 0 && IsNameCharacter(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

// The parser reports some errors once it has read on: steps back to the start of a word that the
// message quotes, where that word is the last thing before `offset`.
size_t StartOfQuotedWord(const std::string& text, size_t offset, const std::string& message) {
  const size_t last = text.find_last_not_of(" \t\r\n", offset == 0 ? 0 : offset - 1);
  if (last == std::string::npos || offset == 0) return offset;
  size_t begin = last + 1;
  while (begin > 0 && IsNameCharacter(text[begin - 1])) --begin;
  const std::string word = text.substr(begin, last + 1 - begin);
  const bool quoted = !word.empty() && message.find("\"" + word + "\"") != std::string::npos;
  return quoted ? begin : offset;
}

}  // namespace

void FirstTextError::AddError(int line, int column, const std::string& message) {
  if (!line_.empty()) return;
  if (line < 0) {
    line_ = absl::StrCat(source_, ": ", message);
    return;
  }
  const size_t offset = StartOfQuotedWord(text_, OffsetOf(text_, line, column), message);
  const size_t line_start = offset == 0 ? 0 : text_.rfind('\n', offset - 1) + 1;
  const auto line_number = 1 + std::count(text_.begin(), text_.begin() + offset, '\n');
  const std::string field = FieldBefore(text_, offset);
  const bool names_field = message.find("field") != std::string::npos;
  line_ = absl::StrFormat("%s:%d:%d: %s%s", source_, line_number, offset - line_start + 1,
                          names_field || field.empty() ? "" : field + ": ", complete_(message));
  if (absl::EndsWith(message, "got: ")) line_ += "the end";
}

}  // namespace strata

#include "common/escape_line.h"

#include "absl/strings/str_format.h"

namespace strata {

std::string EscapeLine(std::string_view text) {
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

}  // namespace strata

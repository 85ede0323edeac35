#include "cli/options/terminal.h"

#include <algorithm>
#include <cstdint>

namespace strata::cli {
namespace {

unsigned char ByteAt(absl::string_view text, size_t i) {
  return static_cast<unsigned char>(text[i]);
}

// Returns the UTF-8 character at the beginning of the text, and its bytes; 0 bytes: not UTF-8.
uint32_t FirstCharacter(absl::string_view text, size_t* bytes) {
  const unsigned char first = ByteAt(text, 0);
  *bytes = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (first > 0xf4 || text.size() < *bytes) *bytes = 0;
  if (*bytes <= 1) return first;
  uint32_t character = first & (0xff >> (*bytes + 1));
  for (size_t i = 1; i < *bytes; ++i) {
    const unsigned char next = ByteAt(text, i);
    if ((next & 0xc0) != 0x80) return *bytes = 0, first;
    character = character << 6 | (next & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
  if (character < kLeast[*bytes] || character > 0x10ffff || is_surrogate) *bytes = 0;
  return character;
}

bool IsControl(uint32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
         character == 0x061c ||                           // Arabic letter mark
         character == 0x200e || character == 0x200f ||    // marks of direction
         (character >= 0x2028 && character <= 0x202e) ||  // ends of lines, embeddings, overrides
         (character >= 0x2066 && character <= 0x2069) ||  // isolates
         character == 0xfeff ||                           // a mark of byte order
         (character >= 0xe0000 && character <= 0xe007f);  // tags, which nobody sees
}

// Appends what stands for the first character of the text, which is a control, or for its first
// byte where `bytes` is 0: it is no UTF-8.
void AppendEscape(absl::string_view text, uint32_t character, size_t bytes, std::string* out) {
  if (bytes > 0 && character == '\n') {
    out->append("\\n");
  } else if (bytes > 0 && character == '\r') {
    out->append("\\r");
  } else if (bytes > 0 && character == '\t') {
    out->append("\\t");
  } else if (bytes <= 1) {
    absl::StrAppendFormat(out, "\\x%02x", ByteAt(text, 0));
  } else if (character <= 0xffff) {
    absl::StrAppendFormat(out, "\\u%04x", character);
  } else {
    absl::StrAppendFormat(out, "\\U%08x", character);
  }
}

// `kept`: characters that stay although they are controls.
std::string EscapedBut(absl::string_view text, absl::string_view kept) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    size_t bytes = 0;
    const uint32_t character = FirstCharacter(text, &bytes);
    const bool stays =
        bytes > 0 && (!IsControl(character) || kept.find(text[0]) != absl::string_view::npos);
    if (stays) {
      shown.append(text.data(), bytes);
    } else {
      AppendEscape(text, character, bytes, &shown);
    }
    text.remove_prefix(std::max(bytes, size_t{1}));
  }
  return shown;
}

// A control in a string of JSON, as JSON writes it.
std::string JsonEscape(uint32_t character, size_t bytes) {
  if (bytes == 0) return "\\ufffd";
  if (character <= 0xffff) return absl::StrFormat("\\u%04x", character);
  const uint32_t rest = character - 0x10000;
  return absl::StrFormat("\\u%04x\\u%04x", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

}  // namespace

bool BeginsWithControl(absl::string_view text) {
  if (text.empty()) return false;
  size_t bytes = 0;
  const uint32_t character = FirstCharacter(text, &bytes);
  return bytes == 0 || IsControl(character);
}

size_t CharacterBytes(absl::string_view text) {
  size_t bytes = 0;
  FirstCharacter(text, &bytes);
  return std::max(bytes, size_t{1});
}

std::string Escaped(absl::string_view text) { return EscapedBut(text, ""); }

std::string EscapedLines(absl::string_view text) { return EscapedBut(text, "\n\t"); }

std::string EscapedStart(absl::string_view text, size_t bytes_max) {
  std::string shown = Escaped(text);
  size_t end = std::min(bytes_max, shown.size());
  while (end > 0 && end < shown.size() && (ByteAt(shown, end) & 0xc0) == 0x80) --end;
  shown.resize(end);
  return shown;
}

bool WriteBytes(std::FILE* out, absl::string_view bytes) {
  return std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
}

void PrintText(std::FILE* out, absl::string_view lines) { WriteBytes(out, EscapedLines(lines)); }

void PrintJson(std::FILE* out, absl::string_view json) {
  std::string shown;
  shown.reserve(json.size());
  while (!json.empty()) {
    size_t bytes = 0;
    const uint32_t character = FirstCharacter(json, &bytes);
    // Controls of ASCII in strings are escapes already; these stand between the values.
    const bool is_space = json[0] == '\n' || json[0] == '\t';
    if (bytes > 0 && (is_space || !IsControl(character))) {
      shown.append(json.data(), bytes);
    } else {
      shown.append(JsonEscape(character, bytes));
    }
    json.remove_prefix(std::max(bytes, size_t{1}));
  }
  WriteBytes(out, shown);
}

}  // namespace strata::cli

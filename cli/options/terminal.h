#ifndef STRATA_CLI_OPTIONS_TERMINAL_H_
#define STRATA_CLI_OPTIONS_TERMINAL_H_

#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace strata::cli {

// The one place that writes to standard output and standard error. Names, paths, reasons and output
// are untrusted, and terminals interpret some bytes: those are escaped, "\x1b". Texts are written
// by length: a NUL does not end them.

// Returns whether the text begins with something that a terminal may interpret or show differently:
// an ASCII control character, one of U+0080 to U+009F, a character that changes the direction of
// text or ends a line, or an invalid UTF-8 byte.
bool BeginsWithControl(absl::string_view text);
// Returns the bytes of the first character; 1 if it is not UTF-8. REQUIRES: not empty.
size_t CharacterBytes(absl::string_view text);

// Returns the text with each of them escaped: "\x1b", "\n", "\u202e". It is one line.
std::string Escaped(absl::string_view text);
// The same, but line breaks and tabs stay: for multi-line text.
std::string EscapedLines(absl::string_view text);
// Escaped, and at most `bytes_max` bytes, without splitting a character.
std::string EscapedStart(absl::string_view text, size_t bytes_max);

template <typename T>
inline constexpr bool kIsText = std::is_convertible_v<const T&, absl::string_view>;
// The form in which PrintF shows an argument: texts escaped, numbers unchanged.
template <typename T>
using Printed = std::conditional_t<kIsText<T>, std::string, T>;

template <typename T>
Printed<T> ToPrint(const T& value) {
  if constexpr (kIsText<T>) {
    return Escaped(value);
  } else {
    return value;
  }
}

// Writes the bytes unchanged: ranks' output into a pipe, and our own sequences. Returns whether all
// were written.
bool WriteBytes(std::FILE* out, absl::string_view bytes);

// Writes text with our own line breaks.
void PrintText(std::FILE* out, absl::string_view lines);

// Writes JSON, which escapes what a terminal interprets.
void PrintJson(std::FILE* out, absl::string_view json);

// Writes formatted text. Line breaks in arguments are escaped, so that none forges a line.
template <typename... Args>
void PrintF(std::FILE* out, const absl::FormatSpec<Printed<Args>...>& format, const Args&... args) {
  WriteBytes(out, absl::StrFormat(format, ToPrint(args)...));
}

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_TERMINAL_H_

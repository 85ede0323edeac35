#ifndef STRATA_CLI_OPTIONS_TERMINAL_H_
#define STRATA_CLI_OPTIONS_TERMINAL_H_

#include <cstddef>
#include <cstdio>
#include <string>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace strata::cli {

// The one place that writes to standard output and standard error. Names, paths, reasons and last
// words come from others, and a terminal obeys some bytes: those are written out, "\x1b". Texts
// are written by their length: a NUL ends none of them.

// Returns whether the text begins with something that a terminal may obey or show differently: an
// ASCII control character, one of U+0080 to U+009F, a character that changes the direction of text
// or ends a line, or a byte that is not UTF-8.
bool BeginsWithControl(absl::string_view text);
// Returns the bytes of the first character; 1 where it is not UTF-8. REQUIRES: not empty.
size_t CharacterBytes(absl::string_view text);

// The text with each of them written out: "\x1b", "\n", "\u202e". It is one line.
std::string Escaped(absl::string_view text);
// The same, but line breaks and tabs stay: for text that is made of lines.
std::string EscapedLines(absl::string_view text);
// Escaped, and at most so many bytes; no character is cut in two.
std::string EscapedStart(absl::string_view text, size_t bytes_max);

template <typename T>
inline constexpr bool kIsText = std::is_convertible_v<const T&, absl::string_view>;
// The form in which PrintF shows an argument: texts escaped, numbers as they are.
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

// Writes the bytes as they are: ranks' output into a pipe, and sequences of our own. Returns
// whether all were taken.
bool WriteBytes(std::FILE* out, absl::string_view bytes);

// Writes text whose line breaks are ours.
void PrintText(std::FILE* out, absl::string_view lines);

// Writes JSON, in which what a terminal obeys is an escape of JSON's.
void PrintJson(std::FILE* out, absl::string_view json);

// Writes what the format says. Line breaks in arguments are written out, so that none forges a
// line.
template <typename... Args>
void PrintF(std::FILE* out, const absl::FormatSpec<Printed<Args>...>& format, const Args&... args) {
  WriteBytes(out, absl::StrFormat(format, ToPrint(args)...));
}

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_TERMINAL_H_

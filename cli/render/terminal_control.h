#ifndef STRATA_CLI_RENDER_TERMINAL_CONTROL_H_
#define STRATA_CLI_RENDER_TERMINAL_CONTROL_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace strata::cli {

// How many bytes of the control character the text begins with, which a terminal may obey: one of
// ASCII's, or one of U+0080 to U+009F in UTF-8, which some obey as they do ESC; 0: it begins with
// none.
inline size_t ControlBytes(absl::string_view text) {
  if (text.empty()) return 0;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x20 || first == 0x7f) return 1;
  if (first != 0xc2 || text.size() < 2) return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  return second >= 0x80 && second < 0xa0 ? 2 : 0;
}

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_TERMINAL_CONTROL_H_

#ifndef STRATA_COMMON_ESCAPE_LINE_H_
#define STRATA_COMMON_ESCAPE_LINE_H_

#include <string>
#include <string_view>

namespace strata {

// Returns the text as one line that does nothing to a terminal: line breaks and control characters
// other than tabs are written out, "\n" and "\x1b".
std::string EscapeLine(std::string_view text);

}  // namespace strata

#endif  // STRATA_COMMON_ESCAPE_LINE_H_

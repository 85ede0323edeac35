#include "compare/campaign/split_outside.h"

namespace strata::compare {

std::vector<std::string> SplitOutside(const std::string& text,
                                      const std::function<bool(size_t)>& separates) {
  std::vector<std::string> parts(1);
  int depth = 0;
  char quote = '\0';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == '\0' && depth == 0 && separates(i)) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '{' || c == '[') {
      ++depth;
    } else if ((c == ')' || c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return parts;
}

}  // namespace strata::compare

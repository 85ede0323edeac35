#include "compare/report/page_parts.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "compare/report/svg/palette.h"

namespace strata::compare {

std::string InsideHtml(const std::string& json) {
  return absl::StrReplaceAll(json, {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

std::string PaletteJson() {
  const auto light = [](std::string* out, const Colour& colour) {
    absl::StrAppend(out, "\"", colour.light, "\"");
  };
  const auto dark = [](std::string* out, const Colour& colour) {
    absl::StrAppend(out, "\"", colour.dark, "\"");
  };
  const auto dash = [](std::string* out, const char* lengths) {
    absl::StrAppend(out, "[", lengths, "]");
  };
  return absl::StrCat("{\"light\": [", absl::StrJoin(kColours, ", ", light), "], \"dark\": [",
                      absl::StrJoin(kColours, ", ", dark), "], \"dashes\": [",
                      absl::StrJoin(kDashes, ", ", dash), "]}");
}

}  // namespace strata::compare

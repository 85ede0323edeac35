#include "compare/report/svg/palette_json.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/report/svg/palette.h"

namespace strata::compare {

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

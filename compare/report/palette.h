#ifndef STRATA_COMPARE_REPORT_PALETTE_H_
#define STRATA_COMPARE_REPORT_PALETTE_H_

#include <array>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::compare {

// How modes look, by their number, in all pictures. Eight colours that the colour-blind tell apart,
// after Okabe and Ito's, darkened for a light ground and lightened for a dark one to a contrast of
// 3 : 1 and more; and four dashes, so that lines do not depend on their colour alone.
struct Colour {
  const char* light;  // on white
  const char* dark;   // on nearly black
};

inline constexpr std::array<Colour, 8> kColours = {{
    {"#0072b2", "#56b4e9"},
    {"#d55e00", "#ff8c42"},
    {"#00805c", "#2fcb9c"},
    {"#b0408a", "#e58bc0"},
    {"#8c6d00", "#e6c229"},
    {"#4b3fb5", "#a99bff"},
    {"#7a1010", "#ffc9c2"},
    {"#808080", "#8b949e"},
}};

// Lengths of strokes and gaps in pixels, as SVG and JSON write them in brackets; empty: no gaps.
inline constexpr std::array<const char*, 4> kDashes = {"", "7, 4", "2, 3", "10, 3, 2, 3"};

// Modes of one colour differ in their dashes.
inline Colour ModeColour(size_t mode) { return kColours[mode % kColours.size()]; }
inline const char* ModeDash(size_t mode) {
  return kDashes[(mode + mode / kColours.size()) % kDashes.size()];
}

// Returns {"light": ["#...", ...], "dark": [...], "dashes": [[...], ...]}, as pages read it.
inline std::string PaletteJson() {
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

#endif  // STRATA_COMPARE_REPORT_PALETTE_H_

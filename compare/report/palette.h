#ifndef STRATA_COMPARE_REPORT_PALETTE_H_
#define STRATA_COMPARE_REPORT_PALETTE_H_

#include <array>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::compare {

// The look of modes, by their number, in all pictures. Eight colours that the colour-blind can
// distinguish, after Okabe and Ito's, darkened for a light background and lightened for a dark one
// to a contrast of at least 3 : 1; and four dashes, so that lines do not depend on colour alone.
struct Colour {
  const char* light;  // on white
  const char* dark;   // on near-black
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

// Lengths of strokes and gaps in pixels, for use in brackets in SVG and JSON; empty: no gaps.
inline constexpr std::array<const char*, 4> kDashes = {"", "7, 4", "2, 3", "10, 3, 2, 3"};

// Modes of one colour differ in their dashes.
inline Colour ModeColour(size_t mode) { return kColours[mode % kColours.size()]; }
inline const char* ModeDash(size_t mode) {
  return kDashes[(mode + mode / kColours.size()) % kDashes.size()];
}

// Returns {"light": ["#...", ...], "dark": [...], "dashes": [[...], ...]}, in the pages' format.
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

#ifndef STRATA_COMPARE_REPORT_SVG_PALETTE_JSON_H_
#define STRATA_COMPARE_REPORT_SVG_PALETTE_JSON_H_

#include <string>

namespace strata::compare {

// {"light": ["#...", ...], "dark": [...], "dashes": [[...], ...]}: palette.h, as pages read it.
std::string PaletteJson();

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_SVG_PALETTE_JSON_H_

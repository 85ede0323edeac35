#ifndef STRATA_COMPARE_REPORT_PAGE_PARTS_H_
#define STRATA_COMPARE_REPORT_PAGE_PARTS_H_

#include <string>

namespace strata::compare {

// A JSON document for the inside of <script>: the same one, without what could end the element.
std::string InsideHtml(const std::string& json);

// palette.h as JSON: {"light": [...], "dark": [...], "dashes": [[...], ...]}.
std::string PaletteJson();

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_PAGE_PARTS_H_

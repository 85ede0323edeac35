#include "compare/report/page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compare/report/page/page_files.h"
#include "compare/report/svg/palette_json.h"

namespace strata::compare {
namespace {

// Returns the same JSON document for the inside of <script>, without what could end the element.
std::string InsideHtml(const std::string& json) {
  return absl::StrReplaceAll(json, {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}});
}

}  // namespace

std::string AssemblePage(const PageParts& parts, const std::string& json,
                         const std::string& charts) {
  // In one pass: what is put in is not searched for places.
  return absl::StrReplaceAll(kFrameHtml, {{"{{title}}", parts.title},
                                          {"{{document}}", parts.document},
                                          {"{{style}}", absl::StrCat(kStyleCss, parts.style)},
                                          {"{{main}}", parts.main},
                                          {"{{data}}", InsideHtml(json)},
                                          {"{{charts}}", InsideHtml(charts)},
                                          {"{{palette}}", PaletteJson()},
                                          {"{{chart_js}}", kChartJs},
                                          {"{{page_js}}", parts.scripts}});
}

}  // namespace strata::compare

#include "compare/report/page.h"

#include "absl/strings/str_replace.h"
#include "compare/report/page/page_files.h"
#include "compare/report/page_parts.h"

namespace strata::compare {

std::string Page(const std::string& report_json) {
  // In one pass: what is put in is not searched for places.
  return absl::StrReplaceAll(kIndexHtml, {{"{{style}}", kStyleCss},
                                          {"{{data}}", InsideHtml(report_json)},
                                          {"{{palette}}", PaletteJson()},
                                          {"{{chart_js}}", kChartJs},
                                          {"{{page_js}}", kPageJs}});
}

}  // namespace strata::compare

#include "compare/sweep/sweep_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compare/report/page/page_files.h"
#include "compare/report/page_parts.h"
#include "compare/sweep/page/sweep_page_files.h"

namespace strata::compare {

std::string SweepPage(const std::string& sweep_json) {
  // In one pass: what is put in is not searched for places.
  return absl::StrReplaceAll(kSweepHtml, {{"{{style}}", absl::StrCat(kStyleCss, kSweepCss)},
                                          {"{{data}}", InsideHtml(sweep_json)},
                                          {"{{palette}}", PaletteJson()},
                                          {"{{chart_js}}", kChartJs},
                                          {"{{page_js}}", kSweepJs}});
}

}  // namespace strata::compare

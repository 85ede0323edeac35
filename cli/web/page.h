#ifndef STRATA_CLI_WEB_PAGE_H_
#define STRATA_CLI_WEB_PAGE_H_

#include <string>

#include "cli/web/http_message.h"

namespace strata::cli {

// The one page as it is sent, and its charts' library, served at /chart.js.
struct Page {
  SharedText html;
  SharedText html_gzip;
  SharedText chart_js;
  SharedText chart_js_gzip;
  std::string chart_js_tag;  // the library's ETag
  // Content-Security-Policy: only the style and the script of this page, by their hashes.
  std::string policy;
};

// Assembles the page. `html` has the placeholders {{style}}, {{page_js}} and {{palette}}.
Page MakePage(const std::string& html, const std::string& css, const std::string& js,
              const std::string& chart_js, const std::string& palette);
// Returns this binary's page.
Page OwnPage();

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_PAGE_H_

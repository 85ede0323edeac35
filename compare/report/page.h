#ifndef STRATA_COMPARE_REPORT_PAGE_H_
#define STRATA_COMPARE_REPORT_PAGE_H_

#include <string>

namespace strata::compare {

// What distinguishes one page from another. Everything but the style goes in as it is, so it comes
// from files of the source tree only.
struct PageParts {
  const char* title;  // until a script has a better one
  const char*
      document;       // the name of the file with all figures, which lies above the page's folder
  const char* main;   // the inside of <main>
  const char* style;  // rules beside those that all pages have
  const char* scripts;
};

// Returns report/index.html: one file that needs nothing else, with the JSON document inside, what
// its charts are drawn from beside that document (JSON, too), and the colours and dashes of
// svg/palette.h.
std::string AssemblePage(const PageParts& parts, const std::string& json,
                         const std::string& charts = "null");

// The colours and dashes of svg/palette.h as pages read them:
// {"light": [...], "dark": [...], "dashes": [[...], ...]}
std::string PaletteJson();

}  // namespace strata::compare

#endif  // STRATA_COMPARE_REPORT_PAGE_H_

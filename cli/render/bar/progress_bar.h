#ifndef STRATA_CLI_RENDER_BAR_PROGRESS_BAR_H_
#define STRATA_CLI_RENDER_BAR_PROGRESS_BAR_H_

#include <cstdint>
#include <string>

#include "common/process/environment.h"

namespace strata::cli {

// Whether a terminal with these variables is shown bars: TERM=dumb and NO_COLOR ask for plain text.
bool ShowsBars(const Environment& environment);

// "[####------]": `columns` wide with its brackets, full up to `share` of 1. REQUIRES: columns
// >= 2.
std::string Bar(double share, int columns);

// "step 234/1170  [####----------------]  20 %  REST" in at most `columns` columns. The bar takes
// what the rest leaves, up to 30 columns. Where the line is too long, first the bar falls away,
// then the step, then the share; `rest` alone is returned whole, also where it is too long.
std::string WithBar(uint64_t step, uint64_t total_steps, const std::string& rest, int columns);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_BAR_PROGRESS_BAR_H_

#ifndef STRATA_CLI_WEB_LOG_JSON_H_
#define STRATA_CLI_WEB_LOG_JSON_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "cli/watch/log_watch.h"

namespace strata::cli {

// "3", "3:rank:1", "3:aggregators", as a page asks for them; none: it is none of these.
std::optional<LogChoice> ParseLogChoice(absl::string_view text);

// What the page takes as an event "log": {"choice": as above, "anew", "passed_over", "lines":
// [[process, text], ...] (a third one, true: a problem), "problem", "ended"}.
std::string LogDocument(const LogChoice& choice, const LogNews& news);

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_LOG_JSON_H_

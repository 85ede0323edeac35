#ifndef STRATA_CLI_RENDER_LOGS_LOG_LINES_H_
#define STRATA_CLI_RENDER_LOGS_LOG_LINES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/logs.pb.h"

namespace strata::cli {

enum class LogLinesForm {
  kRaw,       // as the process wrote them
  kTerminal,  // as TerminalLine makes each
  kJson,      // {"rank":3,"line":"..."}, or "aggregator_node"; an object a line
};

// A line of a program as a terminal may show it. Colours stay; whatever else a terminal would obey
// is written out, "\x07" and "\x1b". Of a line that goes back to its beginning, as progress bars
// do, only what it ends with is left.
std::string TerminalLine(absl::string_view line);
// The same without colours, for what is no terminal.
std::string PlainLine(absl::string_view line);

// The lines that came of one process. `with_process`: what several processes say bears their names,
// "[3] " and "[aggregator 1] ".
std::string LogLinesText(const proto::LogLines& lines, LogLinesForm form, bool with_process);

// {"rank":3,"error":"..."}: why a process shows no more; of several: without one.
std::string LogErrorJson(const proto::LogLines& lines);

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_LOGS_LOG_LINES_H_

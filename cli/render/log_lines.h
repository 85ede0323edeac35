#ifndef STRATA_CLI_RENDER_LOG_LINES_H_
#define STRATA_CLI_RENDER_LOG_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/os/kept_log.h"
#include "proto/logs.pb.h"

namespace strata::cli {

enum class LogLinesForm {
  kRaw,       // as the process wrote them
  kTerminal,  // converted by TerminalLine
  kJson,      // {"rank":3,"line":"..."}, or "aggregator_node"; an object a line
};

// Returns a program's line in a form safe for a terminal. Colours stay; other control sequences are
// escaped, "\x07" and "\x1b". Of a line that returns to its start, as progress bars do, only the
// final state is left.
std::string TerminalLine(absl::string_view line);
// The same without colours, for output that is not a terminal.
std::string PlainLine(absl::string_view line);

// Returns the lines of one process. `with_process`: prefixes them with its name, "[3] " and
// "[aggregator 1] ".
std::string LogLinesText(const proto::LogLines& lines, LogLinesForm form, bool with_process);

// {"rank":3,"error":"..."}: why a process shows no more; for several: without a rank.
std::string LogErrorJson(const proto::LogLines& lines);

// A log that another process writes, read as it grows. Its middle may be cut out meanwhile
// (kept_log.h). Threads: one.
class LogTail {
 public:
  // The file need not exist yet. `prefix` precedes every line. `for_terminal`: lines are converted
  // by TerminalLine; otherwise the bytes are the process's.
  LogTail(std::string path, std::string prefix, bool for_terminal = false)
      : path_(std::move(path)), prefix_(std::move(prefix)), for_terminal_(for_terminal) {}

  // Returns the complete lines since the last call, each with its line break; with `all` also an
  // unfinished one, to which it adds one. At most kBytesMax of the file at a time.
  std::string Read(bool all = false);

  static constexpr size_t kBytesMax = 1 << 20;

 private:
  const std::string path_, prefix_;
  const bool for_terminal_;
  uint64_t offset_ = 0;
  LogCut cut_;  // as of offset_
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_LOG_LINES_H_

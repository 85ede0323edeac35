#ifndef STRATA_CLI_OPTIONS_INVOCATION_H_
#define STRATA_CLI_OPTIONS_INVOCATION_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

// Named here so that headers of commands need not include the parser.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace strata::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed =
    1;  // the job failed or was cancelled; a daemon could not continue
inline constexpr int kExitUsage = 2;  // bad usage or input; nothing was done

// The group of options that --help summarizes in one line and --help-all describes.
inline constexpr char kMoreOptions[] = "More options";

// The request in the parsed command line.
struct Invocation {
  std::function<int()> run;  // returns the exit status
  std::string log_level = "info";
};

// Prints "strata: error: TEXT" as one line on stderr, in JSON if log lines are, and returns
// `exit_status`.
int PrintError(const std::string& text, int exit_status);
// Prints the status in the same way. Returns kExitUsage for InvalidArgument and NotFound, otherwise
// kExitFailed.
int PrintError(const absl::Status& status);

// Returns ", did you mean NAME?" with the name for which `word` is most likely a typo; empty: none
// is close.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& names);
// The same for "--OPTION" or "--OPTION=VALUE" of a command; empty for everything else.
std::string DidYouMeanOption(const std::string& word, const CLI::App& command);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_INVOCATION_H_

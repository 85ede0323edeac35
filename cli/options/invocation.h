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

// The group of options that --help names in one line and --help-all describes.
inline constexpr char kMoreOptions[] = "More options";

// The parsed command line's request.
struct Invocation {
  std::function<int()> run;  // returns the exit status
  std::string log_level = "info";
};

// Prints "strata: error: TEXT" as one line on stderr, of JSON where log lines are, and returns
// `exit_status`.
int PrintError(const std::string& text, int exit_status);
// Prints the status likewise. Returns kExitUsage for InvalidArgument and NotFound, else
// kExitFailed.
int PrintError(const absl::Status& status);

// ", did you mean NAME?" with the name that `word` is most likely a slip of; empty: none is near.
std::string DidYouMean(const std::string& word, const std::vector<std::string>& names);
// The same for "--OPTION" or "--OPTION=VALUE" of a command; empty for all else.
std::string DidYouMeanOption(const std::string& word, const CLI::App& command);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_INVOCATION_H_

#ifndef STRATA_CLI_COMMAND_H_
#define STRATA_CLI_COMMAND_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace strata::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // the job failed or was cancelled; a daemon could not go on
inline constexpr int kExitUsage = 2;   // bad usage or input; nothing was done

// What the parsed command line asks for.
struct Invocation {
  std::function<int()> run;  // returns the exit status
  std::string log_level = "info";
};

// Each adds one subcommand to the parser; its callback sets `invocation->run`.
void AddAggregatorCommand(CLI::App* app, Invocation* invocation);
void AddBenchCommand(CLI::App* app, Invocation* invocation);
void AddCancelCommand(CLI::App* app, Invocation* invocation);
void AddCompareCommand(CLI::App* app, Invocation* invocation);
void AddCoordinatorCommand(CLI::App* app, Invocation* invocation);
void AddDevicesCommand(CLI::App* app, Invocation* invocation);
void AddHostCommand(CLI::App* app, Invocation* invocation);
void AddJobsCommand(CLI::App* app, Invocation* invocation);
void AddLaunchCommand(CLI::App* app, Invocation* invocation);
void AddLocalCommand(CLI::App* app, Invocation* invocation);
void AddNodesCommand(CLI::App* app, Invocation* invocation);
void AddRankCommand(CLI::App* app, Invocation* invocation);
void AddServerCommand(CLI::App* app, Invocation* invocation);
void AddStatusCommand(CLI::App* app, Invocation* invocation);
void AddSubmitCommand(CLI::App* app, Invocation* invocation);
void AddTraceCommand(CLI::App* app, Invocation* invocation);
void AddValidateCommand(CLI::App* app, Invocation* invocation);
void AddWorkerCommand(CLI::App* app, Invocation* invocation);

// Prints "strata: error: TEXT" as one line on stderr and returns `exit_status`.
int PrintError(const std::string& text, int exit_status);
// With kExitUsage for InvalidArgument and NotFound, else kExitFailed.
int PrintError(const absl::Status& status);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMAND_H_

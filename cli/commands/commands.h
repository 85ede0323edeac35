#ifndef STRATA_CLI_COMMANDS_COMMANDS_H_
#define STRATA_CLI_COMMANDS_COMMANDS_H_

#include "cli/options/invocation.h"

namespace strata::cli {

// Each adds one subcommand to the parser; its callback sets `invocation->run`.
void AddAggregatorCommand(CLI::App* app, Invocation* invocation);
void AddBenchCommand(CLI::App* app, Invocation* invocation);
void AddCancelCommand(CLI::App* app, Invocation* invocation);
void AddCheckpointCommand(CLI::App* app, Invocation* invocation);
void AddCompareCommand(CLI::App* app, Invocation* invocation);
void AddCompletionCommand(CLI::App* app, Invocation* invocation);
void AddCoordinatorCommand(CLI::App* app, Invocation* invocation);
void AddDevicesCommand(CLI::App* app, Invocation* invocation);
void AddDrainCommand(CLI::App* app, Invocation* invocation);
void AddTopCommand(CLI::App* app, Invocation* invocation);
void AddExportCommand(CLI::App* app, Invocation* invocation);
void AddWebCommand(CLI::App* app, Invocation* invocation);
void AddHostCommand(CLI::App* app, Invocation* invocation);
void AddJobsCommand(CLI::App* app, Invocation* invocation);
void AddKeysCommand(CLI::App* app, Invocation* invocation);
void AddLaunchCommand(CLI::App* app, Invocation* invocation);
void AddLocalCommand(CLI::App* app, Invocation* invocation);
void AddLogsCommand(CLI::App* app, Invocation* invocation);
void AddManCommand(CLI::App* app, Invocation* invocation);
void AddNodesCommand(CLI::App* app, Invocation* invocation);
void AddRankCommand(CLI::App* app, Invocation* invocation);
void AddRunCommand(CLI::App* app, Invocation* invocation);
void AddServerCommand(CLI::App* app, Invocation* invocation);
void AddStatusCommand(CLI::App* app, Invocation* invocation);
void AddSubmitCommand(CLI::App* app, Invocation* invocation);
void AddSweepCommand(CLI::App* app, Invocation* invocation);
void AddTraceCommand(CLI::App* app, Invocation* invocation);
void AddUndrainCommand(CLI::App* app, Invocation* invocation);
void AddValidateCommand(CLI::App* app, Invocation* invocation);
void AddWorkerCommand(CLI::App* app, Invocation* invocation);

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_COMMANDS_H_

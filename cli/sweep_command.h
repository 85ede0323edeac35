#ifndef STRATA_CLI_SWEEP_COMMAND_H_
#define STRATA_CLI_SWEEP_COMMAND_H_

#include "cli/command.h"

namespace strata::cli {

// As those of command.h.
void AddSweepCommand(CLI::App* app, Invocation* invocation);

}  // namespace strata::cli

#endif  // STRATA_CLI_SWEEP_COMMAND_H_

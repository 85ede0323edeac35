#include "cli/command.h"
namespace strata::cli {
void AddRankCommand(CLI::App* app, Invocation* invocation) {}
}  // namespace strata::cli

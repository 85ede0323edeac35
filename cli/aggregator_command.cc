#include "cli/command.h"
namespace strata::cli {
void AddAggregatorCommand(CLI::App* app, Invocation* invocation) {}
}  // namespace strata::cli

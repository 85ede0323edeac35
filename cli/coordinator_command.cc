#include "cli/command.h"
namespace strata::cli {
void AddCoordinatorCommand(CLI::App* app, Invocation* invocation) {}
}  // namespace strata::cli
